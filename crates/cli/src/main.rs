//! The `mnemora` command line.
use mnemora_lab::*;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let s = Surroundings {
        interrupted: &|| None,
        quiet: false,
        command: args.join(" "),
        commit: "dev".into(),
    };
    let e = load_experiment(&args[0], &args[2..].to_vec()).unwrap();
    let p = plan(e.clone(), None).unwrap();
    println!("{:?}", p.parameters);
    println!(
        "{:?}",
        train(e, std::path::Path::new(&args[1]), None, &s).map_err(|e| e.to_string())
    );
}
