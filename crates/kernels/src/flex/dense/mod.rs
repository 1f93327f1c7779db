//! Matrix products, affine maps, and elementwise operations of layers and optimisers.

pub(crate) mod adam;
mod few_rows;
pub(crate) mod linear;
pub(crate) mod product;
pub(crate) mod softmax;
pub(crate) mod tanh;
pub(crate) mod tensor_product;
pub(crate) mod vectors;
