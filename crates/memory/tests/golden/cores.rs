//! Recurrent cores on their own. Parameters are matched by path: a core has exactly the names and shapes of the
//! reference.

use super::file::{Golden, assert_close};
use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    tensor::{Device, Gradients, Tensor},
};
use mnemora_memory::{
    Attention, ConvLstmConfig, CoreOutput, EntNetConfig, GateStyle, RecurrentCore, RmcConfig,
    StackedLstmConfig,
};

/// A module with the parameters of a golden file.
pub fn load<M: Module>(golden: &Golden, module: M) -> M {
    module.map(&mut Load(golden, Path::default()))
}

/// Compares the gradients of all parameters of a module with those of a golden file.
pub fn check_gradients<M: Module>(golden: &Golden, module: &M, gradients: &Gradients) {
    module.visit(&mut CheckGradients(golden, gradients, Path::default()));
}

/// The current path of a visit. An enum's variant is not part of it.
#[derive(Default)]
struct Path(Vec<Option<String>>);

impl Path {
    fn enter(&mut self, name: &str, container: &str) {
        // Golden files omit the kind of a DNC's controller.
        let name = match (container, name) {
            ("Struct:Dnc", "controller") => "lstm",
            _ => name,
        };
        self.0
            .push((!container.starts_with("Enum:")).then(|| name.to_owned()));
    }

    fn name(&self) -> String {
        let parts: Vec<&str> = self.0.iter().flatten().map(String::as_str).collect();
        parts.join(".")
    }
}

struct Load<'a>(&'a Golden, Path);

impl ModuleMapper for Load<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.1.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.1.0.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.1.name();
        assert_eq!(
            param.dims().to_vec(),
            self.0.shape(&name),
            "shape of {name}"
        );
        Param::from_tensor(self.0.tensor(&name, &param.device()))
    }
}

struct CheckGradients<'a>(&'a Golden, &'a Gradients, Path);

impl ModuleVisitor for CheckGradients<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.2.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.2.0.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let name = format!("grad.{}", self.2.name());
        let gradient = param.val().grad(self.1);
        let gradient = gradient.unwrap_or_else(|| panic!("{name}: no gradient"));
        assert_close(&name, &self.0.values(&name), gradient);
    }
}

/// Checks outputs, from one call and step by step, and gradients of parameters and inputs. Returns the attention
/// weights of each step.
fn check<C: RecurrentCore>(file: &str, core: C, device: &Device) -> Vec<Vec<Attention>> {
    let golden = Golden::open(file);
    let core = load(&golden, core);
    assert_eq!(Module::num_params(&core), golden.parameter_count());
    let inputs: Tensor<3> = golden.tensor("inputs", device).require_grad();
    let [time, batch, width] = inputs.dims();
    assert_eq!(core.input_size(), width);

    let initial = core.initial_state(batch, device);
    let (steps, _) = core.sequence(inputs.clone(), None, initial.clone());
    let (outputs, attention): (Vec<_>, Vec<_>) = steps
        .into_iter()
        .map(|CoreOutput { output, attention }| (output, attention))
        .unzip();
    let outputs = Tensor::stack::<3>(outputs, 0);
    assert_eq!(outputs.dims()[2], core.output_size());
    assert_close("outputs", &golden.values("outputs"), outputs.clone());

    let mut state = initial;
    let prepared = core.prepare();
    let mut one_by_one = Vec::new();
    for input in inputs.clone().chunk(time, 0) {
        let (output, next) = core.step(&prepared, input.squeeze_dim(0), state);
        one_by_one.push(output.output);
        state = next;
    }
    let one_by_one = Tensor::stack::<3>(one_by_one, 0);
    assert_close("step by step", &golden.values("outputs"), one_by_one);

    let probe = golden.tensor::<3>("probe", device);
    let gradients = (outputs * probe).sum().backward();
    check_gradients(&golden, &core, &gradients);
    let gradient = inputs.grad(&gradients).expect("outputs depend on inputs");
    assert_close("grad.inputs", &golden.values("grad.inputs"), gradient);
    attention
}

fn rmc(file: &str, config: RmcConfig) {
    let device = Device::default().autodiff();
    let core = config.init(&mut super::initializer(&device)).unwrap();
    let attention = check(file, core, &device);
    let weights = attention.iter().map(|heads| {
        let [heads] = heads.as_slice() else {
            panic!("one tensor holds the weights of all heads")
        };
        heads.by_row().expect("each memory asks")
    });
    let weights = Tensor::stack::<5>(weights.collect(), 0);
    let expected = Golden::open(file).values("attention");
    assert_close("attention", &expected, weights);
}

#[test]
fn rmc_with_gates_for_each_unit() {
    rmc("rmc", RmcConfig::new(5, 4, 2, 3));
}

#[test]
fn rmc_with_two_blocks_and_an_mlp_of_three_layers() {
    let config = RmcConfig {
        blocks: 2,
        mlp_layers: 3,
        ..RmcConfig::new(4, 4, 2, 3)
    };
    rmc("rmc_blocks", config);
}

#[test]
fn rmc_with_gates_for_each_memory_and_one_slot() {
    let config = RmcConfig {
        gates: GateStyle::Memory,
        ..RmcConfig::new(5, 1, 2, 3)
    };
    rmc("rmc_memory_gates", config);
}

#[test]
fn rmc_without_gates_and_with_more_slots_than_units() {
    let config = RmcConfig {
        blocks: 2,
        mlp_layers: 1,
        gates: GateStyle::None,
        ..RmcConfig::new(5, 4, 1, 3)
    };
    rmc("rmc_no_gates", config);
}

#[test]
fn rmc_with_rows_of_input_and_keys_of_another_size() {
    let config = RmcConfig {
        rows: 3,
        key_size: 2,
        blocks: 2,
        gates: GateStyle::Memory,
        ..RmcConfig::new(4, 4, 2, 3)
    };
    rmc("rmc_rows", config);
}

#[test]
fn rmc_with_an_output_gate() {
    let config = RmcConfig {
        output_gate: true,
        ..RmcConfig::new(5, 1, 3, 2)
    };
    rmc("rmc_output_gate", config);
}

#[test]
fn stacked_lstm() {
    let device = Device::default().autodiff();
    let config = StackedLstmConfig {
        input: 3,
        hidden: 4,
        layers: 3,
    };
    let core = config.init(&mut super::initializer(&device)).unwrap();
    check("stacked_lstm", core, &device);
}

#[test]
fn ent_net() {
    let device = Device::default().autodiff();
    let config = EntNetConfig::new(5, 3, 4);
    let core = config.init(&mut super::initializer(&device)).unwrap();
    let gates = check("ent_net", core, &device);
    let gates = gates.iter().map(|heads| heads[0].weights());
    let gates = Tensor::stack::<4>(gates.collect(), 0);
    assert_close("gates", &Golden::open("ent_net").values("gates"), gates);
}

fn conv_lstm(file: &str, config: ConvLstmConfig) {
    let device = Device::default().autodiff();
    let core = config.init(&mut super::initializer(&device)).unwrap();
    check(file, core, &device);
}

#[test]
fn conv_lstm_with_an_even_kernel() {
    let config = ConvLstmConfig {
        inputs: 2,
        channels: 3,
        height: 4,
        width: 3,
        kernel: 2,
    };
    conv_lstm("conv_lstm", config);
}

#[test]
fn conv_lstm_with_an_odd_kernel() {
    let config = ConvLstmConfig {
        inputs: 1,
        channels: 2,
        height: 3,
        width: 4,
        kernel: 3,
    };
    conv_lstm("conv_lstm_odd", config);
}
