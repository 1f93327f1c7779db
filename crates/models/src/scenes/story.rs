//! Stories: frames in the order of time, for models that predict one from those before.

use super::{Views, repeated};
use burn::tensor::{Int, Tensor, TensorData};

/// The first frames of some stories.
#[derive(Clone, Debug)]
pub struct Beginning {
    /// `[moments * scenes, channels, height, width]`: the first frame of all stories, then their second one, and so on.
    pub(super) frames: Tensor<4>,
    /// Number of stories.
    pub(super) scenes: usize,
    /// Frames of each.
    pub(super) moments: usize,
}

impl Beginning {
    /// The beginnings that a context shows.
    ///
    /// # Panics
    /// If there is no context: a story needs at least one frame to begin with.
    pub(super) fn of(context: Option<&Views>) -> Self {
        let views = context.expect("a story has a beginning");
        let scenes = views.scenes();
        Self {
            frames: by_time(views.frames.clone(), scenes),
            scenes,
            moments: views.each,
        }
    }

    /// As often as `times` for each story.
    pub(super) fn repeated(&self, times: usize) -> Self {
        Self {
            frames: repeated(self.frames.clone(), times),
            scenes: self.scenes * times,
            moments: self.moments,
        }
    }
}

/// The numbers of the frames whose times are asked for, from 1 on: `round(time * moments)`, at least 1. `[scenes * each]`
pub(super) fn frame_numbers(queries: &Tensor<2>, moments: usize) -> Vec<usize> {
    let times = queries.clone().into_data().try_into_vec::<f32>();
    let times = times.expect("tensors of this project hold f32");
    let number = |time: &f32| (time * moments as f32).round().max(1.0) as usize;
    times.iter().map(number).collect()
}

/// Of all frames of some stories in order of time, `[moments * scenes, ..]`, those with these numbers, `[scenes * each]`,
/// those of one scene after those of another.
pub(super) fn at_numbers(all: Tensor<4>, scenes: usize, numbers: &[usize]) -> Tensor<4> {
    let each = numbers.len() / scenes;
    let places = numbers.iter().enumerate();
    let places = places.map(|(row, number)| ((number - 1) * scenes + row / each) as i64);
    let places: Vec<i64> = places.collect();
    let device = all.device();
    let places = Tensor::<1, Int>::from_data(TensorData::new(places, [numbers.len()]), &device);
    all.select(0, places)
}

/// From views of scene after scene to frames of moment after moment.
pub(super) fn by_time(frames: Tensor<4>, scenes: usize) -> Tensor<4> {
    let each = frames.dims()[0] / scenes;
    turned(frames, [scenes, each])
}

/// From frames of moment after moment to views of scene after scene.
pub(super) fn by_scene(frames: Tensor<4>, scenes: usize) -> Tensor<4> {
    let each = frames.dims()[0] / scenes;
    turned(frames, [each, scenes])
}

/// Rows counted by two indices, with the second index as the slower one.
fn turned(rows: Tensor<4>, [slow, fast]: [usize; 2]) -> Tensor<4> {
    if slow == 1 || fast == 1 {
        return rows;
    }
    let shape = rows.dims();
    let size = shape[1..].iter().product();
    rows.reshape([slow, fast, size])
        .swap_dims(0, 1)
        .reshape(shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn frames_are_found_by_their_times() {
        let device = Device::default();
        // Two stories of three frames; a frame is one number: 10 * story + moment.
        let values = [11.0, 12.0, 13.0, 21.0, 22.0, 23.0];
        let frames = Tensor::<1>::from_floats(values, &device).reshape([6, 1, 1, 1]);
        let ordered = by_time(frames.clone(), 2);
        let read = |frames: Tensor<4>| frames.into_data().try_into_vec::<f32>().unwrap();
        assert_eq!(read(ordered.clone()), [11.0, 21.0, 12.0, 22.0, 13.0, 23.0]);
        assert_eq!(read(by_scene(ordered.clone(), 2)), values);
        let times = [2.0 / 3.0, 1.0, 1.0 / 3.0, 0.1];
        let times = Tensor::<1>::from_floats(times, &device).reshape([4, 1]);
        let numbers = frame_numbers(&times, 3);
        assert_eq!(numbers, [2, 3, 1, 1]);
        assert_eq!(
            read(at_numbers(ordered, 2, &numbers)),
            [12.0, 13.0, 21.0, 21.0]
        );
    }

    #[test]
    fn a_beginning_is_in_order_of_time() {
        let frames = Tensor::<1>::from_floats([1.0, 2.0, 3.0, 4.0], &Device::default());
        let views = Views {
            frames: frames.clone().reshape([4, 1, 1, 1]),
            queries: frames.reshape([4, 1]),
            each: 2,
        };
        let beginning = Beginning::of(Some(&views));
        assert_eq!((beginning.scenes, beginning.moments), (2, 2));
        let frames = beginning.frames.into_data().try_into_vec::<f32>();
        assert_eq!(frames.unwrap(), [1.0, 3.0, 2.0, 4.0]);
    }
}
