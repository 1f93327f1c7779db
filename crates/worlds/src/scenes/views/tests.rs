use super::gqn::{BytesList, Example, Feature, Features, FloatList};
use super::*;
use crate::formats::picture::tests::{encode_png, uniform};
use crate::scenes::{Dice, Showing, scene_batch, testing::holds};
use crate::testing::DIGITS;
use crate::tfrecord::record;
use prost::Message;
use std::collections::BTreeMap;
use std::fs;
use tempfile::TempDir;

const LIMITS: Limits = Limits {
    bytes: 8 << 20,
    unpacked_bytes: 4 << 20,
};

fn showing(context: usize, targets: usize) -> Showing {
    Showing {
        anywhere: false,
        context_least: 1,
        context_most: context,
        targets_least: 1,
        targets,
        hiding: 0.0,
        revealing: false,
    }
}

// A user's own pictures.

/// A matrix of a camera at a place that looks along -x.
fn matrix([x, y, z]: [f32; 3]) -> String {
    format!("[[0, 0, 1, {x}], [1, 0, 0, {y}], [0, 1, 0, {z}], [0, 0, 0, 1]]")
}

fn transforms(frames: &[(String, String)]) -> String {
    let frames: Vec<String> = frames
        .iter()
        .map(|(file, matrix)| format!(r#"{{"file_path": "{file}", "transform_matrix": {matrix}}}"#))
        .collect();
    format!(
        r#"{{"camera_angle_x": 0.7, "frames": [{}]}}"#,
        frames.join(",")
    )
}

/// Writes a scene whose view `i` is a picture of brightness `bright + i`, taken at x = i.
fn write_scene(folder: &Path, views: usize, bright: u8) {
    fs::create_dir_all(folder.join("pictures")).unwrap();
    let frames: Vec<(String, String)> = (0..views)
        .map(|view| {
            let picture = uniform(8, 12, bright + view as u8);
            fs::write(
                folder.join(format!("pictures/{view}.png")),
                encode_png(&picture),
            )
            .unwrap();
            // With and without extension.
            let end = if view % 2 == 0 { "" } else { ".png" };
            (
                format!("./pictures/{view}{end}"),
                matrix([view as f32, 2.0, 0.5]),
            )
        })
        .collect();
    fs::write(folder.join("transforms.json"), transforms(&frames)).unwrap();
}

fn own(folder: &Path) -> Result<Arc<Views>, String> {
    let views = OwnViews::open(folder, 8, LIMITS).map(Arc::new);
    views.map_err(|error| {
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    })
}

fn refused(folder: &Path) -> String {
    own(folder).unwrap_err()
}

#[test]
fn one_scene_is_divided() {
    let folder = tempfile::tempdir().unwrap();
    write_scene(folder.path(), 12, 200);
    let views = own(folder.path()).unwrap();
    assert_eq!(views.train[0].views, 10);
    assert_eq!((views.test[0].views, views.test[0].held_out), (12, 2));
    let scenes = views.showing(4, 2).unwrap();
    holds(&scenes, showing(4, 2));
    assert_eq!(scenes.most(Ask::Any), [4, 2]);
    // The training views are at 0 to 11 without 2 and 7, so that x is from -1 to 1; y and z do not change.
    let stream = Stream::new(1, "data");
    let batch = |split| scene_batch(&scenes, showing(4, 2), Ask::Any, (split, &stream), 3, 40);
    let of = |split| {
        let batch = batch(split);
        let seen = |queries: &[f32]| -> Vec<i32> {
            let mut places: Vec<i32> = queries
                .chunks(6)
                .map(|query| {
                    assert_eq!(query[1..], [0.0, 0.0, -1.0, 0.0, 0.0]);
                    (query[0] * 5.5 + 5.5).round() as i32
                })
                .collect();
            places.sort_unstable();
            places.dedup();
            places
        };
        [seen(&batch.context_queries), seen(&batch.target_queries)]
    };
    let training = vec![0, 1, 3, 4, 5, 6, 8, 9, 10, 11];
    assert_eq!(of(Split::Train), [training.clone(), training.clone()]);
    assert_eq!(of(Split::Test), [training, vec![2, 7]]);
    // No view is in the context and asked for, and frames are those of their queries.
    let batch = batch(Split::Train);
    let size = batch.frame.size();
    for scene in 0..batch.scenes {
        let shown = &batch.context_queries[scene * batch.context * 6..][..batch.context * 6];
        for target in 0..batch.targets {
            let row = scene * batch.targets + target;
            let asked = batch.target_queries[row * 6];
            assert!(shown.chunks(6).all(|query| query[0] != asked));
            let bright = batch.target_frames[row * size] * 255.0;
            assert_eq!(bright.round(), 200.0 + (asked * 5.5 + 5.5).round());
        }
    }
}

#[test]
fn several_scenes_are_divided() {
    let folder = tempfile::tempdir().unwrap();
    for scene in 1..=10u8 {
        write_scene(
            &folder.path().join(format!("scene{scene}")),
            6,
            130 + 10 * scene,
        );
    }
    let views = own(folder.path()).unwrap();
    assert_eq!((views.train.len(), views.test.len()), (8, 2));
    // In natural order, 10 is last; the first picture of a scene says which it is.
    let brightness: Vec<u8> = views.all().map(|scene| scene.frames[0]).collect();
    assert_eq!(
        brightness,
        [140, 150, 160, 170, 180, 190, 200, 210, 220, 230]
    );
    holds(
        &views.showing(3, 3).unwrap(),
        Showing {
            targets: 3,
            ..showing(3, 3)
        },
    );
    assert!(format!("{views:?}").contains("8 scenes and 2 held out, 60 views"));

    let parted = tempfile::tempdir().unwrap();
    for (part, bright) in [("train/a", 10), ("train/b", 20), ("test/c", 30)] {
        write_scene(&parted.path().join(part), 6, bright);
    }
    let views = own(parted.path()).unwrap();
    assert_eq!((views.train.len(), views.test.len()), (2, 1));
    assert_eq!(views.test[0].held_out, 0);

    // A single scene in a folder is one scene.
    let single = tempfile::tempdir().unwrap();
    write_scene(&single.path().join("a"), 6, 10);
    assert_eq!(own(single.path()).unwrap().test[0].held_out, 1);
}

#[test]
fn transforms_may_be_divided_already() {
    let folder = tempfile::tempdir().unwrap();
    write_scene(folder.path(), 5, 100);
    let at = |name: &str| folder.path().join(name);
    let part = |views: std::ops::Range<usize>| -> String {
        let frames: Vec<(String, String)> = views
            .map(|view| (format!("pictures/{view}"), matrix([view as f32, 0.0, 0.0])))
            .collect();
        transforms(&frames)
    };
    fs::remove_file(at("transforms.json")).unwrap();
    fs::write(at("transforms_train.json"), part(0..3)).unwrap();
    assert!(refused(folder.path()).contains("no transforms_test.json beside it"));
    fs::write(at("transforms_test.json"), part(3..5)).unwrap();
    let views = own(folder.path()).unwrap();
    assert_eq!(views.train[0].views, 3);
    assert_eq!((views.test[0].views, views.test[0].held_out), (5, 2));
    // The scale is that of the training views: the held-out one at x = 4 is beyond 1.
    assert_eq!(views.test[0].queries[4 * 6], 3.0);
}

#[test]
fn a_table_has_any_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = String::from("file,height,angle\n");
    for view in 0..5u8 {
        fs::write(
            folder.path().join(format!("{view}.png")),
            encode_png(&uniform(8, 8, view)),
        )
        .unwrap();
        table.push_str(&format!("{view}.png,1.5,{}\n", 90 * u32::from(view)));
    }
    fs::write(folder.path().join("poses.csv"), table).unwrap();
    let views = own(folder.path()).unwrap();
    assert_eq!(views.query_width, 2);
    assert_eq!(
        views.train[0].queries,
        [0.0, -1.0, 0.0, -0.5, 0.0, 0.5, 0.0, 1.0]
    );
}

/// What is wrong, and where.
#[test]
fn what_is_no_scene_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert!(refused(path).contains("no poses: there must be a transforms.json"));
    assert!(refused(&path.join("nowhere")).contains("does not exist"));
    write_scene(path, 6, 100);
    let json = path.join("transforms.json");
    let right = fs::read_to_string(&json).unwrap();
    assert!(refused(&json).contains("is not a folder"));

    let changed = |from: &str, to: &str| {
        assert!(right.contains(from), "{from}");
        fs::write(&json, right.replacen(from, to, 1)).unwrap();
        refused(path)
    };
    let says = |problem: String, words: &[&str]| {
        for word in words {
            assert!(problem.contains(word), "{problem} does not say {word}");
        }
    };
    says(
        changed("pictures/3", "pictures/9"),
        &[
            "transforms.json",
            "frame 4",
            "no picture \"./pictures/9.png\"",
        ],
    );
    says(
        changed(", [0, 0, 0, 1]]", "]"),
        &["frame 1", "transform_matrix has 3 rows", "4 x 4"],
    );
    says(
        changed("[1, 0, 0, 2]", "[1, 0, 7, 2]"),
        &["frame 1", "is not a pose"],
    );
    says(
        changed("pictures/3.png", "pictures/2.png"),
        &["frame 4 names the picture", "2.png", "as frame 3 does"],
    );
    says(changed("frames", "framed"), &["missing field `frames`"]);

    fs::write(&json, &right).unwrap();
    let picture = path.join("pictures/4.png");
    fs::write(&picture, encode_png(&uniform(8, 8, 3))).unwrap();
    says(
        refused(path),
        &[
            "4.png",
            "8 x 8 pixels",
            "0.png has 12 x 8",
            "all cameras must have one size",
        ],
    );
    fs::write(&picture, b"GIF89a").unwrap();
    says(refused(path), &["4.png", "neither a PNG nor a JPEG"]);
    let png = encode_png(&uniform(8, 12, 3));
    fs::write(&picture, &png[..40]).unwrap();
    says(refused(path), &["4.png", "damaged PNG"]);
    fs::write(&picture, &png).unwrap();
    let views = own(path).unwrap();
    let few = |context, targets| views.showing(context, targets).unwrap_err().to_string();
    says(
        few(4, 2),
        &[
            "transforms.json",
            "5 views",
            "scenes.context_most 4 and scenes.targets 2",
        ],
    );
    says(few(3, 2), &["5 views for contexts and 1 held out"]);

    fs::write(path.join("poses.csv"), "file,x\n").unwrap();
    says(
        refused(path),
        &["transforms.json and", "poses.csv; keep one"],
    );
    fs::remove_file(path.join("poses.csv")).unwrap();

    // Two scenes must go together.
    let two = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        write_scene(&two.path().join(name), 4, 10);
    }
    let second = two.path().join("b/transforms.json");
    let right = fs::read_to_string(&second).unwrap();
    fs::write(&second, right.replace("0.7", "0.9")).unwrap();
    says(
        refused(two.path()),
        &["b/transforms.json", "camera_angle_x is 0.9, but 0.7 in"],
    );
    fs::remove_file(&second).unwrap();
    says(
        refused(two.path()),
        &["b: no transforms.json and no poses.csv"],
    );
    fs::write(two.path().join("b/poses.csv"), "file,x\npictures/1.png,2\n").unwrap();
    says(
        refused(two.path()),
        &["poses of x, but those of", "a/transforms.json"],
    );

    let limits = Limits {
        bytes: 1000,
        ..LIMITS
    };
    let error = OwnViews::open(path, 8, limits).unwrap_err().to_string();
    assert!(error.contains("raise data.max_bytes"), "{error}");
}

/// The bundled pictures are those that the example `posed_views` writes.
#[test]
fn the_bundled_scene_is_a_die() {
    let side = 64;
    let views = Arc::new(own::bundled(side).unwrap());
    assert_eq!((views.test[0].views, views.test[0].held_out), (48, 10));
    assert!(
        views
            .to_string()
            .starts_with("48 views of one scene, 10 of them held out")
    );
    holds(&views.showing(5, 3).unwrap(), showing(5, 3));
    let dice = Dice::new(&DIGITS, side).unwrap();
    let die = dice.scene(Split::Test, &Stream::new(1, "posed views"), 11);
    let mut frame = vec![0.0; dice.frame().size()];
    let order = (0..48)
        .filter(|view| view % 5 != 2)
        .chain((0..48).filter(|view| view % 5 == 2));
    for (place, view) in order.enumerate() {
        die.render(3 * view, die.truth(), &mut frame);
        let found = &views.test[0].frames[place * frame.len()..][..frame.len()];
        for (found, wanted) in found.iter().zip(&frame) {
            assert!(
                (f32::from(*found) - 255.0 * wanted).abs() <= 1.0,
                "view {view}"
            );
        }
        // On a circle around the middle, looking inwards.
        let [x, y, z, look_x, look_y, look_z] = views.test[0].queries[place * 6..][..6] else {
            panic!("a query has six numbers");
        };
        assert!(
            (x + look_x).abs() < 0.02 && (y + look_y).abs() < 0.02 && z == 0.0 && look_z == 0.0
        );
    }
}

// The data sets of the GQN.

/// A picture of 8 x 8 pixels, all 200.
const JPEG: &[u8] = crate::formats::picture::tests::JPEG;

fn example(frames: Vec<Vec<u8>>, cameras: Vec<f32>) -> Vec<u8> {
    let feature = BTreeMap::from([
        (
            "frames".to_owned(),
            Feature {
                bytes: Some(BytesList { value: frames }),
                floats: None,
            },
        ),
        (
            "cameras".to_owned(),
            Feature {
                bytes: None,
                floats: Some(FloatList { value: cameras }),
            },
        ),
    ]);
    let features = Some(Features { feature });
    Example { features }.encode_to_vec()
}

/// A scene of `views` views at x = `at`, `at + 1`, ..
fn gqn_scene(views: usize, at: f32) -> Vec<u8> {
    let camera = |view| [at + view as f32, 0.5, 0.25, 0.5, -0.25];
    let frames = vec![JPEG.to_vec(); views];
    record(&example(frames, (0..views).flat_map(camera).collect()))
}

/// A data set of two training files with two scenes and one, and a test file of one.
fn gqn_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for part in ["train", "test"] {
        fs::create_dir(folder.path().join(part)).unwrap();
    }
    let write = |name: &str, scenes: &[Vec<u8>]| {
        fs::write(folder.path().join(name), scenes.concat()).unwrap();
    };
    write(
        "train/1-of-2.tfrecord",
        &[gqn_scene(5, 0.0), gqn_scene(5, 10.0)],
    );
    write("train/2-of-2.tfrecord", &[gqn_scene(5, 20.0)]);
    write("test/1-of-1.tfrecord", &[gqn_scene(6, 30.0)]);
    folder
}

fn gqn(folder: &Path) -> Result<Arc<Views>, String> {
    let views = GqnData::open(folder, 8, LIMITS).map(Arc::new);
    views.map_err(|error| error.to_string())
}

#[test]
fn a_data_set_of_the_gqn_is_read() {
    let folder = gqn_folder();
    let views = gqn(folder.path()).unwrap();
    assert_eq!((views.train.len(), views.test.len()), (3, 1));
    let first: Vec<f32> = views.all().map(|scene| scene.queries[0]).collect();
    assert_eq!(first, [0.0, 10.0, 20.0, 30.0]);
    let (yaw, pitch) = (0.5f32, -0.25f32);
    let query = [
        31.0,
        0.5,
        0.25,
        yaw.cos(),
        yaw.sin(),
        pitch.cos(),
        pitch.sin(),
    ];
    assert_eq!(views.test[0].queries[7..14], query);
    assert!(
        views
            .all()
            .all(|scene| scene.frames.iter().all(|byte| byte.abs_diff(200) <= 4))
    );
    assert_eq!(
        views.to_string(),
        format!(
            "3 scenes and 1 held out, 21 views: {}",
            folder.path().display()
        )
    );
    let scenes = views.showing(3, 2).unwrap();
    assert_eq!(scenes.most(Ask::Any), [3, 2]);
    let error = views.showing(4, 2).unwrap_err().to_string();
    assert!(
        error.contains("1-of-2.tfrecord, record 1: 5 views, too few for"),
        "{error}"
    );
    let again = gqn(folder.path()).unwrap();
    assert_eq!(views.fingerprint(), again.fingerprint());
    fs::remove_file(folder.path().join("train/2-of-2.tfrecord")).unwrap();
    assert_ne!(
        views.fingerprint(),
        gqn(folder.path()).unwrap().fingerprint()
    );
}

/// The wire format, by hand: what TensorFlow writes is read, packed floats or not.
#[test]
fn bytes_of_an_example() {
    let field = |tag: u8, content: &[u8]| [&[tag << 3 | 2, content.len() as u8], content].concat();
    let numbers: Vec<u8> = [1.0f32, 2.0, 3.0, 0.0, 0.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let packed = field(1, &numbers);
    let single: Vec<u8> = numbers
        .chunks(4)
        .flat_map(|bytes| [&[0x0d], bytes].concat())
        .collect();
    for floats in [packed, single] {
        let entry = |name: &str, feature: &[u8]| {
            field(1, &[field(1, name.as_bytes()), field(2, feature)].concat())
        };
        let cameras = entry("cameras", &field(2, &floats));
        let frames = entry("frames", &field(1, &field(1, b"jpeg")));
        let bytes = field(1, &[cameras, frames].concat());
        let read = Example::decode(&bytes[..])
            .unwrap()
            .features
            .unwrap()
            .feature;
        assert_eq!(read["frames"].bytes.as_ref().unwrap().value, [b"jpeg"]);
        assert_eq!(
            read["cameras"].floats.as_ref().unwrap().value,
            [1.0, 2.0, 3.0, 0.0, 0.0]
        );
    }
}

#[test]
fn what_is_no_data_set_of_the_gqn_is_refused() {
    let folder = gqn_folder();
    let file = folder.path().join("train/1-of-2.tfrecord");
    let right = fs::read(&file).unwrap();
    let with = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let problem = gqn(folder.path()).unwrap_err();
        assert!(
            problem.contains("1-of-2.tfrecord: record 1") && !problem.contains('\n'),
            "{problem}"
        );
        problem
    };
    assert!(with(&right[..right.len() / 3]).contains("cut short"));
    let mut damaged = right.clone();
    damaged[40] ^= 1;
    assert!(with(&damaged).contains("checksum (CRC-32C) of its bytes is wrong"));
    damaged = right.clone();
    damaged[0] ^= 1;
    assert!(with(&damaged).contains("checksum (CRC-32C) of its length is wrong"));

    let jpegs = |count| vec![JPEG.to_vec(); count];
    for (frames, cameras, says) in [
        (
            jpegs(2),
            vec![0.0; 9],
            "`cameras` has 9 numbers for 2 frames",
        ),
        (
            jpegs(2),
            vec![f32::NAN; 10],
            "camera 1: NaN is not a finite number",
        ),
        (vec![], vec![], "`frames` is empty"),
        (
            vec![JPEG.to_vec(), b"no picture".to_vec()],
            vec![0.0; 10],
            "frame 2: neither a PNG nor a JPEG",
        ),
        (
            vec![JPEG.to_vec(), JPEG[..60].to_vec()],
            vec![0.0; 10],
            "frame 2: damaged JPEG",
        ),
        (
            vec![JPEG.to_vec(), encode_png(&uniform(4, 4, 9))],
            vec![0.0; 10],
            "frame 2: a picture of 4 x 4 pixels",
        ),
    ] {
        let problem = with(&record(&example(frames, cameras)));
        assert!(problem.contains(says), "{problem}");
    }
    let without = |name: &str| {
        let mut read = Example::decode(&example(jpegs(1), vec![0.0; 5])[..]).unwrap();
        read.features.as_mut().unwrap().feature.remove(name);
        with(&record(&read.encode_to_vec()))
    };
    assert!(without("frames").contains("no `frames`"));
    assert!(without("cameras").contains("no `cameras`"));
    assert!(with(&record(&[0xff; 9])).contains("not a tf.train.Example"));
    let swapped = Features {
        feature: BTreeMap::from([("frames".to_owned(), Feature::default())]),
    };
    let swapped = Example {
        features: Some(swapped),
    }
    .encode_to_vec();
    assert!(with(&record(&swapped)).contains("`frames` is not a list of JPEG pictures"));

    fs::remove_dir_all(folder.path().join("test")).unwrap();
    assert!(
        gqn(folder.path())
            .unwrap_err()
            .contains("test: this folder is missing")
    );
    fs::create_dir(folder.path().join("test")).unwrap();
    fs::write(&file, &right).unwrap();
    assert!(gqn(folder.path()).unwrap_err().contains("test: no scene"));
    assert!(
        gqn(&folder.path().join("none"))
            .unwrap_err()
            .contains("does not exist")
    );
}
