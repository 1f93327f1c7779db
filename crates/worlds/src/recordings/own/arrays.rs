//! Sequences in NumPy arrays.

use super::Sequences;
use crate::FrameShape;
use crate::files::Room;
use crate::formats::npy::{Array, Numbers};
use crate::recordings::corpus::{Part, Parts, Recording, Values};
use crate::recordings::parts::by_chance;

/// The error is one line without the name of the file.
pub(super) fn sequences(
    arrays: Vec<(String, Array)>,
    room: Room,
) -> Result<(FrameShape, Sequences), String> {
    /// Bytes that a sequence takes besides its numbers: its name, and the overhead of two allocations.
    const SEQUENCE: usize = size_of::<Recording>() + 64;
    let mut taken = 0;
    let divided = !arrays.is_empty()
        && arrays
            .iter()
            .all(|(name, _)| Part::named(name).is_some_and(|part| part.to_string() == *name));
    let stacked = divided || arrays.len() == 1;
    let mut shape: Option<(FrameShape, String)> = None;
    let mut pictures = None;
    let mut parts = Parts::default();
    let mut undivided = Vec::new();
    for (name, array) in arrays {
        let mut dimensions = array.shape.iter();
        let count = if stacked { dimensions.next() } else { Some(&1) };
        let (Some(&count), Some(&time)) = (count, dimensions.next()) else {
            let wanted = if stacked {
                "[sequence, time, ...]"
            } else {
                "[time, ...]"
            };
            return Err(format!(
                "{name}: an array of shape {:?}; it should be {wanted}",
                array.shape
            ));
        };
        let bytes = matches!(array.numbers, Numbers::Bytes(_));
        let picture = picture_shape(dimensions.as_slice()).filter(|_| bytes);
        let step = match picture {
            Some(step) => step,
            None => {
                step_shape(dimensions.as_slice()).map_err(|problem| format!("{name}: {problem}"))?
            }
        };
        let (known, first) = shape.get_or_insert((step, name.clone()));
        if *known != step || *pictures.get_or_insert(picture.is_some()) != picture.is_some() {
            return Err(format!(
                "{name}: steps of {}, but those of {first} are {}; all must agree, including their type",
                describe(step),
                describe(*known)
            ));
        }
        if array.shape.contains(&0) {
            return Err(format!(
                "{name}: an array of shape {:?}, without a number",
                array.shape
            ));
        }
        taken += count * SEQUENCE + size_of::<f32>() * count * time * step.size();
        room.check(taken)?;
        let values: Vec<Values> = match array.numbers {
            Numbers::Bytes(bytes) if picture.is_some() => {
                let sequences = bytes.chunks_exact(time * step.size());
                sequences
                    .map(|pixels| Values::Pixels(pixels.to_vec()))
                    .collect()
            }
            Numbers::Bytes(bytes) => {
                let numbers: Vec<f32> = bytes.into_iter().map(f32::from).collect();
                number_sequences(&numbers, time * step.size())
            }
            Numbers::Floats(numbers) => {
                if let Some(place) = numbers.iter().position(|number| !number.is_finite()) {
                    return Err(format!(
                        "{name}{:?}: {}, not a finite number; remove it or fill it in",
                        indices(place, &array.shape),
                        numbers[place]
                    ));
                }
                number_sequences(&numbers, time * step.size())
            }
        };
        debug_assert_eq!(values.len(), count);
        let sequences = values
            .into_iter()
            .enumerate()
            .map(|(number, values)| Recording {
                name: if stacked {
                    format!("{name} {number}")
                } else {
                    name.clone()
                },
                values,
            });
        match Part::named(&name).filter(|_| divided) {
            Some(part) => parts.get_mut(part).extend(sequences),
            None => undivided.extend(sequences),
        }
    }
    let (shape, _) = shape.ok_or("holds no arrays")?;
    if !divided {
        parts = by_chance(undivided);
    }
    Ok((shape, parts))
}

fn number_sequences(numbers: &[f32], size: usize) -> Vec<Values> {
    let sequences = numbers.chunks_exact(size);
    sequences
        .map(|numbers| Values::Numbers(numbers.to_vec()))
        .collect()
}

/// The frame of a picture with these dimensions.
fn picture_shape(dimensions: &[usize]) -> Option<FrameShape> {
    let (height, width, channels) = match *dimensions {
        [height, width] => (height, width, 1),
        [height, width, channels @ (1 | 3)] => (height, width, channels),
        _ => return None,
    };
    Some(FrameShape {
        channels,
        height,
        width,
    })
}

/// The dimensions after time.
fn step_shape(dimensions: &[usize]) -> Result<FrameShape, String> {
    let shape = |channels, height, width| FrameShape {
        channels,
        height,
        width,
    };
    match *dimensions {
        [] => Ok(shape(1, 1, 1)),
        [width] => Ok(shape(1, 1, width)),
        [height, width] => Ok(shape(1, height, width)),
        [channels, height, width] => Ok(shape(channels, height, width)),
        _ => Err(format!(
            "steps of {dimensions:?}; a step is a number, [width], [height, width] or [channels, height, width]"
        )),
    }
}

fn describe(step: FrameShape) -> String {
    match (step.channels, step.height) {
        (1, 1) => format!("{} values", step.width),
        _ => format!(
            "{} x {} x {} values",
            step.channels, step.height, step.width
        ),
    }
}

/// The indices of element `place`, from 0.
fn indices(place: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = place;
    let mut indices: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&size| {
            let index = rest % size;
            rest /= size;
            index
        })
        .collect();
    indices.reverse();
    indices
}

#[cfg(test)]
mod tests {
    use crate::Part;
    use crate::formats::npy::tests::{floats, npy, npz};
    use crate::recordings::own::tests::{counts, open};

    #[test]
    fn stacked_and_unequal_arrays_are_sequences() {
        let numbers: Vec<f32> = (0..40 * 3 * 2).map(|value| value as f32).collect();
        let stacked = npz(&[("x", floats(&[40, 3, 2], &numbers))]);
        let corpus = open("x.npz", &stacked).unwrap();
        assert_eq!((counts(&corpus), corpus.frame().size()), ([32, 4, 4], 2));
        let first = &corpus.recordings(Part::Train)[0];
        assert_eq!((first.name.as_str(), corpus.steps(first)), ("x 0", 3));
        let batch = corpus.whole(Part::Train, &[0]).unwrap();
        assert_eq!(batch.values, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let single = open("x.npy", &floats(&[40, 3, 2], &numbers)).unwrap();
        assert_eq!(single.fingerprint(), corpus.fingerprint());

        let unequal = npz(&[
            ("a", floats(&[3, 2], &numbers[..6])),
            ("b", floats(&[5, 2], &numbers[..10])),
            ("c", npy("|u1", false, &[1, 2], &[7, 255])),
        ]);
        let corpus = open("x.npz", &unequal).unwrap();
        assert_eq!(counts(&corpus), [1, 1, 1]);
        let steps: usize = Part::ALL.iter().map(|&part| corpus.total_steps(part)).sum();
        assert_eq!(steps, 9);

        let divided = npz(&[
            ("train", floats(&[2, 3], &numbers[..6])),
            ("test", floats(&[1, 5], &numbers[..5])),
        ]);
        let corpus = open("x.npz", &divided).unwrap();
        assert_eq!((counts(&corpus), corpus.frame().size()), ([2, 0, 1], 1));
        let bytes = open(
            "x.npy",
            &npy("|u1", false, &[1, 1, 1, 2, 3], &[0, 51, 102, 153, 204, 255]),
        );
        let batch = bytes.unwrap().whole(Part::Train, &[0]).unwrap();
        assert_eq!(batch.values, [0.0, 0.6, 0.2, 0.8, 0.4, 1.0]);
        let pictures = floats(&[1, 2, 3, 4, 5], &numbers[..120]);
        let frame = open("x.npy", &pictures).unwrap().frame();
        assert_eq!((frame.channels, frame.height, frame.width), (3, 4, 5));
    }

    #[test]
    fn bad_arrays_are_refused_with_their_place() {
        let refused = |arrays: &[(&str, Vec<u8>)]| open("x.npz", &npz(arrays)).unwrap_err();
        let mut numbers = vec![0.0; 12];
        numbers[9] = f32::NAN;
        assert_eq!(
            refused(&[("x", floats(&[2, 3, 2], &numbers))]),
            "x[1, 1, 1]: NaN, not a finite number; remove it or fill it in"
        );
        numbers[9] = f32::NEG_INFINITY;
        assert!(refused(&[("x", floats(&[2, 6], &numbers))]).starts_with("x[1, 3]: -inf"));
        assert_eq!(
            refused(&[
                ("a", floats(&[3, 2], &[0.0; 6])),
                ("b", floats(&[2, 3], &[0.0; 6]))
            ]),
            "b: steps of 3 values, but those of a are 2 values; all must agree, including their type"
        );
        assert!(refused(&[("x", floats(&[6], &[0.0; 6]))]).contains("[sequence, time, ...]"));
        assert!(refused(&[("x", floats(&[0, 6], &[]))]).contains("without a number"));
        let mixed = [
            ("a", floats(&[1, 2, 2], &[0.0; 4])),
            ("b", npy("|u1", false, &[1, 2, 2], &[0; 4])),
        ];
        assert!(refused(&mixed).contains("including their type"));
        assert!(refused(&[("x", floats(&[1; 6], &[0.0]))]).contains("a step is a number"));
        assert_eq!(refused(&[]), "holds no arrays");
        let beyond = npy("<f8", false, &[1, 1], &1e300f64.to_le_bytes());
        assert!(refused(&[("x", beyond)]).starts_with("x[0, 0]: inf"));
    }
}
