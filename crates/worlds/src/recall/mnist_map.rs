//! A map of digits: a random walk over a grid with a digit in every cell.
//!
//! Gemici et al. 2017, section 5.6. The paper uses a grid of 4 x 4 and walks of 25 steps.

use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::sequence::{FRAME, Sequence, assemble};
use super::{FrameTask, ImageSet, LENGTH, RECALL, Size};
use crate::settings::{LONGEST, check, check_length};
use crate::{Batch, Conditions, DataSet, Error, Images, Layout, Split, Stream, Task};

/// Number of actions: up, down, left, right, in the order of their condition values.
const ACTIONS: usize = 4;

/// Rows and columns of the map.
const GRID: Size = Size {
    key: "grid",
    about: "cells along a side of the map",
    default: 4,
};

/// The task in the table of tasks.
pub(super) const TASK: FrameTask = FrameTask {
    name: "mnist-map",
    about: "walk over a map of digits, told which way each step goes",
    images: ImageSet::Digits,
    sizes: &[LENGTH, RECALL, GRID],
    laid_out: |sizes| layout(sizes.get(LENGTH), sizes.get(RECALL)),
    opened: |data, sizes| {
        let task = MnistMap::new(data, sizes.get(GRID), sizes.get(LENGTH), sizes.get(RECALL))?;
        Ok(Arc::new(task))
    },
};

/// The steps at which cells are revisited differ from walk to walk.
fn layout(length: usize, recall: usize) -> Layout {
    Layout {
        name: TASK.name,
        frame: FRAME,
        condition_width: ACTIONS,
        prompt: length,
        time: length.saturating_add(recall),
        recall_interval: None,
    }
}

/// Walks over a grid in which each cell holds one random image for the whole sequence.
///
/// The start cell is uniform, and so is every action among those that stay inside the grid. The
/// condition at step `t` is the action that led to frame `t`, one-hot in the order up, down, left,
/// right; at step 0 all four values are 0.
///
/// A frame is predictable if its cell was visited before; its source is the latest such visit.
/// [`Batch::cells`] holds the cell of every frame.
#[derive(Clone, Debug)]
pub struct MnistMap {
    data: Arc<DataSet>,
    layout: Layout,
    grid: usize,
}

impl MnistMap {
    /// The task `mnist-map` on `grid` x `grid` cells (`task.grid`), with `length` frames that are shown
    /// before a model generates (`task.length`) and `recall` frames after them (`task.recall`).
    ///
    /// # Errors
    /// `grid` is not in `2..=32`, or `length` or `recall` is not in `1..=100_000`.
    pub fn new(
        data: Arc<DataSet>,
        grid: usize,
        length: usize,
        recall: usize,
    ) -> Result<MnistMap, Error> {
        check("task.grid", grid, 2..=32, || {
            "the rows and columns of the map must be from 2 to 32".to_owned()
        })?;
        check_length(length)?;
        check("task.recall", recall, 1..=LONGEST, || {
            format!("the steps after task.length must be from 1 to {LONGEST}")
        })?;
        Ok(MnistMap {
            data,
            layout: layout(length, recall),
            grid,
        })
    }

    /// A walk: its frames, its cells, and the action that led to each frame after the first.
    fn walk(&self, images: &Images, generator: &mut ChaCha8Rng) -> Walk {
        let time = self.time();
        let instances: Vec<usize> = (0..self.grid * self.grid)
            .map(|_| images.draw(generator))
            .collect();
        let mut latest_visit = vec![None; instances.len()];
        let mut walk = Walk {
            frames: Sequence::new(time),
            cells: Vec::with_capacity(time),
            actions: Vec::with_capacity(time),
        };
        let mut cell = generator.random_range(0..instances.len());
        for step in 0..time {
            if step > 0 {
                let moves = self.moves(cell);
                let (action, next) = moves[generator.random_range(0..moves.len())];
                walk.actions.push(action);
                cell = next;
            }
            match latest_visit[cell].replace(step) {
                Some(visit) => walk.frames.repeat(visit),
                None => walk.frames.show(instances[cell]),
            }
            walk.cells
                .push(u16::try_from(cell).expect("at most 32 x 32 cells"));
        }
        walk
    }

    /// The actions that stay inside the grid, with the cell each leads to.
    fn moves(&self, cell: usize) -> Vec<(usize, usize)> {
        let (row, column, last) = (cell / self.grid, cell % self.grid, self.grid - 1);
        [
            (row > 0).then(|| cell - self.grid),
            (row < last).then(|| cell + self.grid),
            (column > 0).then(|| cell - 1),
            (column < last).then(|| cell + 1),
        ]
        .into_iter()
        .enumerate()
        .filter_map(|(action, next)| Some((action, next?)))
        .collect()
    }
}

struct Walk {
    frames: Sequence,
    cells: Vec<u16>,
    actions: Vec<usize>,
}

impl Task for MnistMap {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn batch(&self, split: Split, stream: &Stream, index: u64, batch: usize) -> Batch {
        let images = self.data.split(split);
        let steps = batch * self.time();
        let mut values = Vec::with_capacity(steps * ACTIONS);
        let mut cells = Vec::with_capacity(steps);
        let made = assemble(images, stream, index, batch, self.time(), |generator| {
            let walk = self.walk(images, generator);
            values.extend([0.0; ACTIONS]);
            for taken in walk.actions {
                values.extend((0..ACTIONS).map(|action| f32::from(u8::from(action == taken))));
            }
            cells.extend(walk.cells);
            walk.frames
        });
        Batch {
            conditions: Some(Conditions {
                values,
                width: ACTIONS,
            }),
            cells: Some(cells),
            ..made
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{DIGITS, assert_sound, split};
    use proptest::prelude::*;

    fn task(grid: usize, length: usize, recall: usize) -> MnistMap {
        MnistMap::new(DIGITS.clone(), grid, length, recall).expect("settings are in range")
    }

    fn cells(batch: &Batch) -> &[u16] {
        batch.cells.as_deref().expect("the map has cells")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn batches_are_sound(
            grid in 2usize..6,
            l in 1usize..20,
            k in 1usize..20,
            split in split(),
            seed: u64,
            index: u64,
        ) {
            let task = task(grid, l, k);
            prop_assert_eq!((task.prompt(), task.recall_interval()), (l, None));
            assert_sound(&task, &DIGITS, split, seed, index);
        }

        #[test]
        fn actions_lead_from_cell_to_cell_inside_the_grid(
            grid in 2usize..6,
            time in 2usize..40,
            seed: u64,
        ) {
            let batch = task(grid, time - 1, 1).batch(Split::Train, &Stream::new(seed, "data"), 0, 2);
            let conditions = batch.conditions.as_ref().expect("the map has conditions");
            let place = |cell: u16| (i64::from(cell) / grid as i64, i64::from(cell) % grid as i64);
            for row in 0..2 {
                for step in 0..time {
                    let position = row * time + step;
                    let action = &conditions.values[4 * position..4 * (position + 1)];
                    let here = place(cells(&batch)[position]);
                    prop_assert!(here.0 < grid as i64);
                    if step == 0 {
                        prop_assert_eq!(action, [0.0; 4]);
                        continue;
                    }
                    let before = place(cells(&batch)[position - 1]);
                    let moved = (here.0 - before.0, here.1 - before.1);
                    let expected = match moved {
                        (-1, 0) => [1.0, 0.0, 0.0, 0.0],
                        (1, 0) => [0.0, 1.0, 0.0, 0.0],
                        (0, -1) => [0.0, 0.0, 1.0, 0.0],
                        (0, 1) => [0.0, 0.0, 0.0, 1.0],
                        _ => panic!("a walk moved by {moved:?}"),
                    };
                    prop_assert_eq!(action, expected);
                }
            }
        }

        #[test]
        fn a_cell_visited_again_shows_its_digit_again(
            grid in 2usize..5,
            time in 2usize..40,
            split in split(),
            seed: u64,
        ) {
            let batch = task(grid, 1, time - 1).batch(split, &Stream::new(seed, "data"), 0, 2);
            for row in 0..2 {
                let cells = &cells(&batch)[row * time..(row + 1) * time];
                for step in 0..time {
                    let latest = (0..step).rev().find(|&earlier| cells[earlier] == cells[step]);
                    prop_assert_eq!(batch.sources[row * time + step], latest);
                    prop_assert_eq!(batch.predictable[row * time + step], latest.is_some());
                    if let Some(latest) = latest {
                        prop_assert_eq!(batch.frame_at(row, step), batch.frame_at(row, latest));
                    }
                }
            }
        }
    }

    #[test]
    fn starts_and_moves_are_uniform() {
        let rows = 9000;
        let batch = task(3, 1, 1).batch(Split::Test, &Stream::new(6, "data"), 0, rows);
        let mut walks = [[0; 9]; 9];
        for walk in cells(&batch).chunks(2) {
            walks[usize::from(walk[0])][usize::from(walk[1])] += 1;
        }
        for (start, ends) in walks.iter().enumerate() {
            let moves = task(3, 1, 1).moves(start);
            assert_eq!(moves.len(), [2, 3, 2, 3, 4, 3, 2, 3, 2][start]);
            let taken: i32 = moves.iter().map(|&(_, end)| ends[end]).sum();
            assert_eq!(taken, ends.iter().sum::<i32>());
            assert!(
                (870..1130).contains(&taken),
                "{taken} starts in cell {start}"
            );
            for (_, end) in &moves {
                let share = f64::from(ends[*end]) / f64::from(taken) * moves.len() as f64;
                assert!(
                    (0.8..1.2).contains(&share),
                    "from {start} to {end}: {share}"
                );
            }
        }
    }

    #[test]
    fn golden_labels() {
        let batch = task(3, 5, 2).batch(Split::Train, &Stream::new(1, "data"), 0, 2);
        assert_eq!(batch.labels, [0, 6, 4, 6, 4, 6, 2, 7, 6, 4, 6, 8, 6, 7]);
        assert_eq!(cells(&batch), [0, 3, 4, 7, 4, 3, 6, 4, 7, 6, 7, 8, 7, 4]);
    }

    #[test]
    fn impossible_settings_name_their_key() {
        let message = |grid, length, recall| {
            MnistMap::new(DIGITS.clone(), grid, length, recall)
                .expect_err("out of range")
                .to_string()
        };
        for grid in [1, 33] {
            assert_eq!(
                message(grid, 20, 5),
                format!("task.grid = {grid}: the rows and columns of the map must be from 2 to 32")
            );
        }
        assert_eq!(
            message(4, 0, 5),
            "task.length = 0: the images to watch must be from 1 to 100000"
        );
        assert_eq!(
            message(4, 20, 0),
            "task.recall = 0: the steps after task.length must be from 1 to 100000"
        );
    }
}
