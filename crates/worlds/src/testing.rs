//! Helpers for the tests of the tasks.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use crate::{Batch, DataSet, Images, Mnist, Origin, Split, Stream, Task};

pub(crate) static DIGITS: LazyLock<Arc<DataSet>> =
    LazyLock::new(|| Arc::new(Mnist::bundled().expect("the bundled digits are sound")));

/// l and k with 1 <= k <= l.
pub(crate) fn lengths() -> impl Strategy<Value = (usize, usize)> {
    (1usize..12).prop_flat_map(|length| (Just(length), 1..=length))
}

pub(crate) fn split() -> impl Strategy<Value = Split> {
    prop_oneof![Just(Split::Train), Just(Split::Test)]
}

/// Digits with these labels, every pixel of an image as bright as its position.
pub(crate) fn constant_images(train: &[u16], test: &[u16]) -> Arc<DataSet> {
    let images = |labels: &[u16]| {
        let pixels = (0..labels.len()).flat_map(|index| [index as u8; Images::SIZE]);
        Images::new(pixels.collect(), labels.to_vec(), 10)
    };
    Arc::new(DataSet {
        name: "mnist",
        classes: 10,
        train: images(train),
        test: images(test),
        fingerprint: String::new(),
        origin: Origin::BundledSubset,
    })
}

/// The label of every image of a split, by its pixels.
pub(crate) fn labels_by_image(images: &Images) -> HashMap<&[u8], u16> {
    (0..images.len())
        .filter_map(|index| images.image(index).zip(images.label(index)))
        .collect()
}

pub(crate) fn pixels(frame: &[f32]) -> Vec<u8> {
    frame
        .iter()
        .map(|intensity| (intensity * 255.0).round() as u8)
        .collect()
}

/// Asserts properties of every batch of every task over a data set.
pub(crate) fn assert_sound(task: &dyn Task, data: &DataSet, split: Split, seed: u64, index: u64) {
    let stream = Stream::new(seed, "data");
    let batch = task.batch(split, &stream, index, 2);
    assert_shape(task, &batch, 2);
    assert_shape(task, &task.batch(split, &stream, index, 0), 0);
    assert_sources(&batch);

    // Comparing labels with pixels searches the whole split, so only do it for small ones.
    if data.split(split).len() <= 1000 {
        let labels = labels_by_image(data.split(split));
        for (row, step) in places(&batch) {
            let image = pixels(batch.frame_at(row, step).expect("inside the batch"));
            assert_eq!(
                labels.get(image.as_slice()),
                Some(&batch.labels[row * batch.time + step])
            );
        }
    }

    // Sequences depend on seed and index only; the batch size only groups them.
    assert_eq!(batch, task.batch(split, &stream, index, 2));
    let singles = [0, 1].map(|row| {
        let number = index.wrapping_mul(2).wrapping_add(row);
        task.batch(split, &stream, number, 1)
    });
    assert_eq!(
        batch.frames,
        [&singles[0].frames[..], &singles[1].frames].concat()
    );
    assert_eq!(
        batch.labels,
        [&singles[0].labels[..], &singles[1].labels].concat()
    );
    assert_eq!(
        batch.sources,
        [&singles[0].sources[..], &singles[1].sources].concat()
    );
    let conditions = |batch: &Batch| {
        let conditions = batch.conditions.as_ref();
        conditions.map_or(Vec::new(), |conditions| conditions.values.clone())
    };
    assert_eq!(
        conditions(&batch),
        [conditions(&singles[0]), conditions(&singles[1])].concat()
    );
}

fn places(batch: &Batch) -> impl Iterator<Item = (usize, usize)> {
    let time = batch.time;
    (0..batch.batch).flat_map(move |row| (0..time).map(move |step| (row, step)))
}

/// Dimensions are those of the task's layout, intensities lie in [0, 1].
fn assert_shape(task: &dyn Task, batch: &Batch, rows: usize) {
    let steps = rows * task.time();
    assert_eq!((batch.batch, batch.time), (rows, task.time()));
    assert_eq!(batch.frame, task.frame());
    assert_eq!(batch.frames.len(), steps * task.frame().size());
    assert_eq!(batch.labels.len(), steps);
    assert_eq!(batch.predictable.len(), steps);
    assert_eq!(batch.sources.len(), steps);
    match &batch.conditions {
        None => assert_eq!(task.condition_width(), 0),
        Some(conditions) => {
            assert!(conditions.width > 0);
            assert_eq!(conditions.width, task.condition_width());
            assert_eq!(conditions.values.len(), steps * conditions.width);
        }
    }
    if let Some(cells) = &batch.cells {
        assert_eq!(cells.len(), steps);
    }
    assert!(
        batch
            .frames
            .iter()
            .all(|intensity| (0.0..=1.0).contains(intensity))
    );
}

/// A source is an earlier frame with the same pixels and label, and makes a frame predictable.
fn assert_sources(batch: &Batch) {
    for (row, step) in places(batch) {
        let position = row * batch.time + step;
        if let Some(source) = batch.sources[position] {
            assert!(source < step);
            assert!(batch.predictable[position]);
            assert_eq!(batch.frame_at(row, step), batch.frame_at(row, source));
            assert_eq!(
                batch.labels[position],
                batch.labels[row * batch.time + source]
            );
        }
    }
}
