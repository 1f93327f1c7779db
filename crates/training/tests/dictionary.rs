//! The state of an online filter with a dictionary is saved, loaded and checked, with and without an index.

use burn::tensor::Device;
use mnemora_memory::Initializer;
use mnemora_models::{GtmSm, GtmSmConfig, ImageShape, WalkedWorld};
use mnemora_training::{
    arrays::{Array, collect},
    online::{
        FilterState, Numbers, Observed, Online, OnlineFilter, load_filter_state, save_filter_state,
    },
    strategy::Inference,
};
use mnemora_worlds::{FrameShape, Scale, Stream};
use std::{fs, path::Path};

const FRAME: FrameShape = FrameShape {
    channels: 1,
    height: 2,
    width: 3,
};
const ACTIONS: usize = 5;

/// A filter that memorises `memorise` steps. Its parameters do not depend on their number.
fn filter(memorise: usize) -> Online<GtmSm> {
    let config = GtmSmConfig {
        latent: 2,
        hidden: 5,
        neighbours: 3,
        ..GtmSmConfig::default()
    };
    let FrameShape {
        channels,
        height,
        width,
    } = FRAME;
    let world = WalkedWorld {
        frame: ImageShape {
            channels,
            height,
            width,
        },
        actions: ACTIONS,
        place: 2,
        opposites: &[[0, 1], [2, 3]],
        memorise,
    };
    let mut init = Initializer::new(Stream::new(1, "parameters").at(0), Device::default());
    let model = config.init(&world, &mut init).unwrap();
    let observed = Observed {
        frame: FRAME,
        numbers: Numbers::Pixels,
        scale: Scale::IDENTITY,
        conditions: ACTIONS,
    };
    let weights = collect(&model);
    Online::new(Inference::direct(model), observed, &weights, 3)
}

/// What a filter says of steps from `from` on, as bits.
fn walk(filter: &mut dyn OnlineFilter, from: usize, steps: usize) -> Vec<Vec<u32>> {
    let stream = Stream::new(2, "walk");
    let walked = (from..from + steps).map(|step| {
        let numbers = stream.uniform_values(step as u64, FRAME.size() + 1);
        let frame: Vec<f32> = numbers[1..].iter().map(|x| *x as f32).collect();
        let mut action = [0.0; ACTIONS];
        action[(numbers[0] * ACTIONS as f64) as usize] = 1.0;
        let said = filter.step(&frame, Some(&action)).unwrap();
        let numbers = said.mean.iter().chain(&said.std).chain(&said.surprise);
        let numbers = numbers.chain(said.prediction.iter().flatten());
        numbers.map(|x| x.to_bits()).collect()
    });
    walked.collect()
}

/// Half way through memorising, at its end, and while the model predicts, a filter goes on from a file bit for bit.
#[test]
fn a_loaded_dictionary_answers_as_the_saved_one() {
    let folder = tempfile::tempdir().unwrap();
    for memorise in [20, 4700] {
        for stop in [memorise / 2, memorise, memorise + 10] {
            let path = folder.path().join(format!("state-{memorise}-{stop}"));
            let mut original = filter(memorise);
            walk(&mut original, 0, stop);
            save_filter_state(&original, &path).unwrap();
            let mut loaded = filter(memorise);
            load_filter_state(&mut loaded, &path).unwrap();
            assert_eq!(loaded.save(), original.save());
            let left = memorise + 30 - stop;
            let expected = walk(&mut original, stop, left);
            assert_eq!(walk(&mut loaded, stop, left), expected);
            // A surprise is said of predicted steps only.
            assert!(expected.last().unwrap().len() > expected[0].len() || stop >= memorise);
        }
    }
}

#[test]
fn a_damaged_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walk.state");
    let mut original = filter(20);
    walk(&mut original, 0, 25);
    save_filter_state(&original, &path).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in [&whole[..whole.len() / 2], &flipped, b"", b"key,value\n"] {
        fs::write(&path, damaged).unwrap();
        let mut loaded = filter(20);
        let error = load_filter_state(&mut loaded, &path)
            .unwrap_err()
            .to_string();
        assert!(error.contains("walk.state"), "{error}");
        assert_eq!(loaded.save(), filter(20).save(), "its state is as before");
    }
}

/// Arrays of a file that is intact may still not make a dictionary.
#[test]
fn arrays_that_make_no_dictionary_are_refused() {
    let mut original = filter(20);
    walk(&mut original, 0, 25);
    let saved = original.save();
    let stored: Vec<&String> = saved
        .iter()
        .filter(|(_, array)| array.shape.len() == 3)
        .map(|(name, _)| name)
        .collect();
    let [keys, values] = stored[..] else {
        panic!("a dictionary is two arrays: {stored:?}");
    };
    assert_eq!(saved[keys].shape, [1, 20, 2]);
    let shortened = |array: &Array, count: usize| {
        let width = array.shape[2];
        Array {
            shape: vec![1, count, width],
            values: array.values[..count * width].to_vec(),
        }
    };
    let refused = |memorise: usize, counts: [usize; 2]| {
        let mut arrays = saved.clone();
        for (name, count) in [(keys, counts[0]), (values, counts[1])] {
            arrays.insert(name.clone(), shortened(&saved[name], count));
        }
        let error = filter(memorise).restore(arrays, Path::new("walk.state"));
        error.map_err(|error| error.to_string())
    };
    assert_eq!(refused(20, [20, 20]), Ok(()));
    for (memorise, counts, problem) in [
        (20, [20, 19], "20 keys and 19 values"),
        (20, [3, 20], "3 keys and 20 values"),
        (10, [20, 20], "at most 10 entries"),
    ] {
        let error = refused(memorise, counts).unwrap_err();
        assert!(
            error.contains("walk.state") && error.contains(problem),
            "{error}"
        );
    }
}
