//! The families that come with mnemora, one folder or file each: see [`Family`](crate::experiment::family::Family).

pub mod agents;
pub mod copy;
pub mod frames;
pub mod navigation;
pub mod nth_farthest;
pub mod programs;
pub mod recordings;
pub mod scenes;
pub mod supervised;
pub mod tables;
pub mod words;
