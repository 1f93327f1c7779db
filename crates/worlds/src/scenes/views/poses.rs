//! Poses of cameras: `transforms.json`, the layout of NeRF, and tables.

use crate::files::Room;
use crate::formats::table::Table;
use serde::Deserialize;
use std::ops::Range;

/// A picture and its query before it is scaled.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pose {
    /// The picture's path from the folder of the poses; the extension may be missing.
    pub(super) file: String,
    /// Where this stands in the file of poses, in words.
    pub(super) place: String,
    pub(super) query: Vec<f32>,
}

/// What a pose file says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Poses {
    pub(super) poses: Vec<Pose>,
    /// The horizontal angle of view in radians, if it is given.
    pub(super) angle: Option<f64>,
    /// What the numbers of a query are, one word each.
    pub(super) numbers: Vec<String>,
    /// Numbers of a query that have one scale.
    pub(super) scaled: Vec<Range<usize>>,
}

#[derive(Deserialize)]
struct Transforms {
    camera_angle_x: Option<f64>,
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
struct Frame {
    file_path: String,
    transform_matrix: Vec<Vec<f64>>,
    /// As some programs give them for each frame.
    camera_angle_x: Option<f64>,
    fl_x: Option<f64>,
}

/// Checks that all cameras have one angle of view. The error names a frame that has another.
fn one_angle(all: Option<f64>, frames: &[Frame]) -> Result<(), String> {
    for key in ["camera_angle_x", "fl_x"] {
        let is_angle = key == "camera_angle_x";
        let all = all.filter(|_| is_angle);
        let mut first = all.map(|value| (value, "the file".to_owned()));
        for (number, frame) in frames.iter().enumerate() {
            let own = if is_angle {
                frame.camera_angle_x
            } else {
                frame.fl_x
            };
            let Some(value) = own else {
                continue;
            };
            match &first {
                None => first = Some((value, format!("frame {}", number + 1))),
                Some((other, place)) if (value - other).abs() > 1e-3 * other.abs() => {
                    return Err(format!(
                        "frame {}: {key} is {value}, but {other} in {place}; all cameras must have one angle of view",
                        number + 1
                    ));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

/// Reads `transforms.json`. The error is one line without the name of the file.
pub(super) fn transforms(text: &[u8]) -> Result<Poses, String> {
    let Transforms {
        camera_angle_x,
        frames,
    } = serde_json::from_slice(text)
        .map_err(|cause| format!("not poses in the layout of NeRF: {cause}"))?;
    if frames.is_empty() {
        return Err("`frames` is empty: it names no picture".into());
    }
    let between = |angle: &f64| 0.0 < *angle && *angle < std::f64::consts::PI;
    if let Some(angle) = camera_angle_x.filter(|angle| !between(angle)) {
        return Err(format!(
            "camera_angle_x is {angle}; it is an angle in radians, between 0 and pi"
        ));
    }
    one_angle(camera_angle_x, &frames)?;
    let poses = frames.into_iter().enumerate().map(|(number, frame)| {
        let place = format!("frame {}", number + 1);
        let query = query(&frame.transform_matrix);
        let query = query.map_err(|problem| format!("{place}: transform_matrix {problem}"))?;
        Ok(Pose {
            file: frame.file_path,
            place,
            query: query.to_vec(),
        })
    });
    let words = ["x", "y", "z", "looks x", "looks y", "looks z"];
    Ok(Poses {
        poses: poses.collect::<Result<_, String>>()?,
        angle: camera_angle_x,
        numbers: words.map(str::to_owned).into(),
        scaled: std::iter::once(0..3).collect(),
    })
}

/// How far a matrix may be from that of a rotation and a translation.
const TOLERANCE: f64 = 1e-2;

/// Place and direction of a camera with a matrix from camera to world. The error says what the matrix is.
fn query(matrix: &[Vec<f64>]) -> Result<[f32; 6], String> {
    let rows: Vec<[f64; 4]> = matrix
        .iter()
        .filter_map(|row| row.as_slice().try_into().ok())
        .collect();
    let Ok([x, y, z, last]) = <[[f64; 4]; 4]>::try_from(rows) else {
        let widths: Vec<String> = matrix
            .iter()
            .take(5)
            .map(|row| row.len().to_string())
            .collect();
        return Err(format!(
            "has {} rows (of {} numbers); it must be 4 x 4",
            matrix.len(),
            widths.join(", ")
        ));
    };
    let near = |a: f64, b: f64| (a - b).abs() <= TOLERANCE;
    let place = [x[3], y[3], z[3]];
    // Squares of larger numbers are not finite in 32 bits.
    let finite = |number: &f64| number.abs() < 1e15;
    if !place.iter().all(finite) {
        return Err(format!(
            "has the place {:e}, {:e}, {:e}; its numbers must be below 1e15",
            place[0], place[1], place[2]
        ));
    }
    let axis = |column: usize| [x[column], y[column], z[column]];
    let axes = [axis(0), axis(1), axis(2)];
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let right_angles =
        (0..3).all(|a| (0..=a).all(|b| near(dot(axes[a], axes[b]), f64::from(u8::from(a == b)))));
    let [a, b, c] = axes;
    let handed = [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ];
    let bottom = last
        .iter()
        .zip([0.0, 0.0, 0.0, 1.0])
        .all(|(a, b)| near(*a, b));
    if !right_angles || !near(dot(handed, c), 1.0) || !bottom {
        return Err(
            "is not a pose: its first three columns must be a rotation, and its last row 0, 0, 0, 1".into(),
        );
    }
    let [x, y, z] = place.map(|number| number as f32);
    let [look_x, look_y, look_z] = c.map(|number| -number as f32);
    Ok([x, y, z, look_x, look_y, look_z])
}

/// Reads `poses.csv`. The error is one line without the name of the file.
pub(super) fn table(text: &str, room: Room) -> Result<Poses, String> {
    let table = Table::parse(text, room)?;
    let Some(file) = table.column(&["file"]) else {
        return Err("its header needs a column file, and columns of numbers".into());
    };
    let names = &table.header;
    if let Some(twice) = (1..names.len()).find(|column| names[..*column].contains(&names[*column]))
    {
        return Err(format!("its header has two columns {}", names[twice]));
    }
    let columns = (0..table.header.len()).filter(|column| *column != file);
    let columns: Vec<usize> = columns.collect();
    if columns.is_empty() {
        return Err("it has no columns of numbers beside file".into());
    }
    if table.rows.is_empty() {
        return Err("it has no rows: it names no picture".into());
    }
    let poses = table.rows.iter().map(|(line, fields)| {
        let number = |column: &usize| {
            let text = &fields[*column];
            let number = text
                .parse::<f32>()
                .ok()
                .filter(|number| number.abs() < 1e15);
            number.ok_or_else(|| {
                format!(
                    "line {line}: {} is {text:?}, which is no number below 1e15",
                    table.header[*column]
                )
            })
        };
        Ok(Pose {
            file: fields[file].clone(),
            place: format!("line {line}"),
            query: columns.iter().map(number).collect::<Result<_, String>>()?,
        })
    });
    let numbers = columns.iter().map(|column| table.header[*column].clone());
    Ok(Poses {
        poses: poses.collect::<Result<_, String>>()?,
        angle: None,
        numbers: numbers.collect(),
        scaled: (0..columns.len())
            .map(|number| number..number + 1)
            .collect(),
    })
}

/// Moves and scales numbers of queries so that those of training views are from -1 to 1.
#[derive(Clone, Debug)]
pub(super) struct Scaling {
    /// Subtracted, then the rest is divided.
    middles: Vec<f32>,
    divisors: Vec<f32>,
}

impl Scaling {
    /// From the queries of training views; the numbers of each range in `scaled` have one divisor. A number that is
    /// always the same becomes 0.
    pub(super) fn of<'a>(
        queries: impl Iterator<Item = &'a [f32]> + Clone,
        width: usize,
        scaled: &[Range<usize>],
    ) -> Self {
        let (mut middles, mut divisors) = (vec![0.0; width], vec![1.0; width]);
        for range in scaled {
            let mut largest = 0.0f32;
            for number in range.clone() {
                let numbers = queries.clone().map(|query| query[number]);
                let low = numbers.clone().fold(f32::INFINITY, f32::min);
                let high = numbers.fold(f32::NEG_INFINITY, f32::max);
                middles[number] = (low + high) / 2.0;
                largest = largest.max((high - low) / 2.0);
            }
            if largest > 0.0 {
                divisors[range.clone()].fill(largest);
            }
        }
        Self { middles, divisors }
    }

    pub(super) fn apply(&self, query: &mut [f32]) {
        let scales = self.middles.iter().zip(&self.divisors);
        for (number, (middle, divisor)) in query.iter_mut().zip(scales) {
            *number = (*number - middle) / divisor;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn json(matrix: &str) -> String {
        format!(
            r#"{{"camera_angle_x": 1.0, "frames": [{{"file_path": "./a", "transform_matrix": {matrix}}}]}}"#
        )
    }

    #[test]
    fn a_camera_looks_along_its_negative_z_axis() {
        // At (1, 2, 3), its x axis is world y, its y axis world z, its z axis world x.
        let text = json("[[0, 0, 1, 1], [1, 0, 0, 2], [0, 1, 0, 3], [0, 0, 0, 1]]");
        let poses = transforms(text.as_bytes()).unwrap();
        assert_eq!(poses.poses[0].query, [1.0, 2.0, 3.0, -1.0, 0.0, 0.0]);
        assert_eq!(
            (poses.angle, poses.poses[0].file.as_str()),
            (Some(1.0), "./a")
        );
    }

    #[test]
    fn what_is_no_pose_is_refused() {
        let refused = |matrix: &str| transforms(json(matrix).as_bytes()).unwrap_err();
        for (matrix, says) in [
            (
                "[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]",
                "3 rows (of 4, 4, 4 numbers); it must be 4 x 4",
            ),
            (
                "[[1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]",
                "4 rows (of 3, 4, 4, 4 numbers)",
            ),
            // Scaled, mirrored, sheared, projective.
            (
                "[[2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1]]",
                "not a pose",
            ),
            (
                "[[-1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]",
                "not a pose",
            ),
            (
                "[[1, 0.2, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]",
                "not a pose",
            ),
            (
                "[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]",
                "not a pose",
            ),
            (
                "[[1, 0, 0, 1e30], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]",
                "below 1e15",
            ),
            ("[]", "0 rows"),
            ("3", "layout of NeRF"),
        ] {
            let problem = refused(matrix);
            assert!(problem.contains(says), "{matrix}: {problem}");
        }
        for (text, says) in [
            (r#"{"camera_angle_x": 1}"#, "missing field `frames`"),
            (r#"{"frames": []}"#, "names no picture"),
            (
                r#"{"camera_angle_x": 4, "frames": [{"file_path": "a", "transform_matrix": []}]}"#,
                "between 0 and pi",
            ),
            ("[", "layout of NeRF"),
            (
                r#"{"frames": [{"file_path": "a", "transform_matrix": [], "fl_x": 111},
                    {"file_path": "b", "transform_matrix": []},
                    {"file_path": "c", "transform_matrix": [], "fl_x": 300}]}"#,
                "frame 3: fl_x is 300, but 111 in frame 1",
            ),
            (
                r#"{"camera_angle_x": 0.7, "frames": [{"file_path": "a", "transform_matrix": [], "camera_angle_x": 0.3}]}"#,
                "frame 1: camera_angle_x is 0.3, but 0.7 in the file",
            ),
        ] {
            let problem = transforms(text.as_bytes()).unwrap_err();
            assert!(
                problem.contains(says) && !problem.contains('\n'),
                "{problem}"
            );
        }
    }

    #[test]
    fn tables_have_a_file_and_numbers() {
        let read = |text: &str| table(text, Limits::default().room(text.len()));
        let poses = read("x,file,y\n1,a.png,2\n3,b.png,-4e1\n").unwrap();
        assert_eq!(poses.numbers, ["x", "y"]);
        let found: Vec<(&str, &[f32])> = poses
            .poses
            .iter()
            .map(|pose| (pose.file.as_str(), &pose.query[..]))
            .collect();
        assert_eq!(
            found,
            [("a.png", &[1.0, 2.0][..]), ("b.png", &[3.0, -40.0])]
        );
        for (text, says) in [
            ("name,x\na,1\n", "needs a column file"),
            ("file\na\n", "no columns of numbers"),
            ("file,x\n", "names no picture"),
            ("x,file,x\n1,a,2\n", "two columns x"),
            ("file,x\na,1\nb,inf\n", "line 3: x is \"inf\""),
            ("file,x\na,one\n", "line 2: x is \"one\""),
            ("file,x\na\n", "line 2: 1 fields"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(says), "{text:?}: {problem}");
        }
    }

    /// Places keep their shape: one scale for x, y and z. A column of a table has its own.
    #[test]
    fn training_poses_are_within_one() {
        let queries: [&[f32]; 3] = [&[0.0, 5.0, 1.0], &[4.0, 5.0, 2.0], &[2.0, 5.0, 1.5]];
        let scaled = |ranges: &[Range<usize>]| {
            let scaling = Scaling::of(queries.iter().copied(), 3, ranges);
            let mut query = [3.0, 5.0, 2.0];
            scaling.apply(&mut query);
            query
        };
        assert_eq!(scaled(std::slice::from_ref(&(0..3))), [0.5, 0.0, 0.25]);
        assert_eq!(scaled(&[0..1, 1..2, 2..3]), [0.5, 0.0, 1.0]);
        assert_eq!(scaled(std::slice::from_ref(&(0..1))), [0.5, 5.0, 2.0]);
    }
}
