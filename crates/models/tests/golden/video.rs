//! The output of CDNA and SV2P compared with the NumPy implementation in `reference/`: values and gradients.

use crate::file::{Golden, assert_close};
use burn::tensor::{
    Device, Tensor,
    activation::{sigmoid, softmax},
};
use mnemora_models::scenes::{normalised, put_together};

/// The masks of one image alone, `[rows, count, height, width]`.
fn only(image: usize, [rows, count, height, width]: [usize; 4], device: &Device) -> Tensor<4> {
    let one = Tensor::<2>::eye(count, device).narrow(0, image, 1);
    one.reshape([1, count, 1, 1])
        .expand([rows, count, height, width])
}

#[test]
fn cdna() {
    let golden = Golden::open("cdna");
    let device = Device::default().autodiff();
    let raw: Tensor<4> = golden.tensor("raw_kernels", &device).require_grad();
    let mask_logits: Tensor<4> = golden.tensor("mask_logits", &device).require_grad();
    let generated_logits: Tensor<4> = golden.tensor("generated_logits", &device).require_grad();
    let previous: Tensor<4> = golden.tensor("previous", &device).require_grad();
    let [rows, count, size, _] = raw.dims();
    let [_, channels, height, width] = previous.dims();

    let kernels = normalised(raw.clone().reshape([rows, count, size * size]));
    assert_close("kernels", &golden.values("kernels"), kernels.clone());
    let masks = softmax(mask_logits.clone(), 1);
    assert_close("masks", &golden.values("masks"), masks.clone());
    let generated = sigmoid(generated_logits.clone());
    assert_close("generated", &golden.values("generated"), generated.clone());
    // The last kernel has no mask.
    let moved: Tensor<5> = golden.tensor("moved", &device);
    for kernel in 0..count - 1 {
        let masks = only(kernel + 2, masks.dims(), &device);
        let (previous, generated) = (previous.clone(), generated.clone());
        let found = put_together(previous, generated, kernels.clone(), masks);
        let expected = moved.clone().narrow(1, kernel, 1);
        let expected = expected.into_data().try_into_vec::<f32>().unwrap();
        assert_close(&format!("moved {kernel}"), &expected, found);
    }

    let frame = put_together(previous.clone(), generated, kernels, masks);
    assert_eq!(frame.dims(), [rows, channels, height, width]);
    assert_close("frame", &golden.values("frame"), frame.clone());
    let probe: Tensor<4> = golden.tensor("probe.frame", &device);
    let gradients = (frame * probe).sum().backward();
    for (name, input) in [
        ("raw_kernels", raw),
        ("mask_logits", mask_logits),
        ("generated_logits", generated_logits),
        ("previous", previous),
    ] {
        let gradient = input
            .grad(&gradients)
            .unwrap_or_else(|| panic!("{name}: none"));
        let name = format!("grad.{name}");
        assert_close(&name, &golden.values(&name), gradient);
    }
}
