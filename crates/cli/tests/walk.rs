//! `mnemora walk` on the model that comes with the project: by lines, by a script, in a terminal, over one's own picture.

mod common;

use common::{assert_says, in_terminal, mnemora, refuse, run_with_input, succeed};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::tempdir;

fn pretrained(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../pretrained")
        .join(name)
}

fn walk(words: &[&str]) -> Command {
    let mut command = mnemora(["walk"]);
    command.arg(pretrained("image-navigation")).args(words);
    command
}

/// What a walk prints for these lines of standard input, and its exit status.
fn by_lines(lines: &str) -> (Vec<String>, String, Option<i32>) {
    let ended = run_with_input(walk(&[]), lines.as_bytes());
    let lines = ended.stdout.lines().map(str::to_owned).collect();
    (lines, ended.stderr, ended.status)
}

/// The number after `name` in a line.
fn number(line: &str, name: &str) -> f64 {
    let (_, rest) = line.split_once(name).unwrap_or_else(|| panic!("{line}"));
    let word = rest.split_whitespace().next().expect("a word");
    word.trim_end_matches([',', ';']).parse().expect("a number")
}

#[test]
fn lines_of_letters_walk_on_in_memory() {
    let (lines, _, status) = by_lines("uudd\n lrud\n");
    assert_eq!((lines.len(), status), (9, Some(0)));
    for (step, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("step {step}, ")), "{line}");
        let (_, off) = line.split_once("), ").expect("the true place");
        let (_, off) = off.split_once("), ").expect("the believed place");
        let off: f64 = off.split(' ').next().unwrap().parse().unwrap();
        assert!(off < 0.3, "{line}");
        assert!(number(line, "imagined frame") < 0.05, "{line}");
    }
    // Back where it began.
    let place = |line: &str| {
        line.split("at (")
            .nth(1)
            .unwrap()
            .split(')')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(place(&lines[0]), place(&lines[8]));
    // It knows where the walls are.
    let (lines, _, _) = by_lines("llllllllll\n");
    let last = lines.last().expect("a line");
    assert!(place(last).starts_with("0, "), "{last}");
    assert!(
        last.contains(" 0.0") && last.contains(" cells off"),
        "{last}"
    );
}

/// Where the agent only turned, its heading is what can be wrong.
#[test]
fn a_turn_is_judged_by_its_heading() {
    let mut command = mnemora(["walk"]);
    command.arg(pretrained("rotation"));
    let ended = run_with_input(command, b"llllllllllll\n");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 13, "{}", ended.stderr);
    let off = lines[1..].iter().map(|line| number(line, "heading "));
    let headings: Vec<f64> = off.collect();
    assert!((headings[11] - headings[0]).abs() > 1.0, "{headings:?}");
    let off = |line: &str| number(line, "believes ") - number(line, "heading ");
    assert!(off(lines[0]).abs() < 0.02, "{}", lines[0]);
    assert!(lines.iter().all(|line| line.contains("radians off")));
}

#[test]
fn an_unknown_letter_takes_no_step() {
    let (lines, error, status) = by_lines("uu\nrrx\nd\n");
    assert_eq!((lines.len(), status), (3, Some(2)));
    assert_says(&error, &["line 2", "'x'", "u up", "s stay"]);
}

#[test]
fn a_film_that_cannot_be_written_is_refused_before_the_walk() {
    let folder = tempdir().expect("a temporary folder is made");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let mut command = walk(&["--out"]);
    command.arg(file.join("walk.gif"));
    let message = refuse(command);
    assert_says(&message, &["cannot write", "walk.gif"]);
}

/// The frames of a GIF.
fn pictures(film: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(film).expect("a film");
    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::RGBA);
    let mut decoder = options.read_info(bytes.as_slice()).expect("a GIF");
    let mut pictures = Vec::new();
    while let Some(frame) = decoder.read_next_frame().expect("a frame") {
        pictures.push(frame.buffer.to_vec());
    }
    pictures
}

#[test]
fn the_film_has_the_steps_before_an_unknown_letter() {
    let folder = tempdir().expect("a temporary folder is made");
    let film = folder.path().join("walk.gif");
    let mut command = walk(&["--out"]);
    command.arg(&film);
    let ended = run_with_input(command, b"uu\nrrx\n");
    assert_eq!(ended.status, Some(2));
    // What is seen at first, and after each of two steps.
    assert_eq!(pictures(&film).len(), 3);
}

#[test]
fn a_script_is_walked_and_filmed() {
    let folder = tempdir().expect("a temporary folder is made");
    let [script, film] = ["steps.txt", "walk.gif"].map(|name| folder.path().join(name));
    fs::write(&script, "# there and back\nrr\nll\n").unwrap();
    let mut command = walk(&["--script"]);
    command.arg(&script).arg("--out").arg(&film);
    succeed(command);
    let pictures = pictures(&film);
    assert_eq!(pictures.len(), 5);
    assert_ne!(pictures[0], pictures[2]);

    fs::write(&script, "r\nq\n").unwrap();
    let mut command = walk(&["--script"]);
    command.arg(&script);
    assert_says(&refuse(command), &["steps.txt, line 2", "'q'"]);
    let mut command = walk(&["--script"]);
    command.arg(folder.path().join("nothing"));
    assert_says(&refuse(command), &["nothing"]);
    fs::write(&script, "r\n").unwrap();
    let mut command = walk(&["--script"]);
    command
        .arg(&script)
        .arg("--out")
        .arg(folder.path().join("walk.mp4"));
    assert_says(&refuse(command), &["walk.mp4", ".gif"]);
}

#[test]
fn what_cannot_be_walked_in_is_refused() {
    let folder = tempdir().expect("a temporary folder is made");
    let small = folder.path().join("small.png");
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 20, 50);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&[7; 20 * 50 * 3]).unwrap();
    drop(writer);
    fs::write(&small, bytes).unwrap();
    let mut command = walk(&["--image"]);
    command.arg(&small);
    assert_says(&refuse(command), &["small.png", "50 x 20", "32 x 32"]);
    let mut command = mnemora(["walk"]);
    command.arg(pretrained("perfect-recall-small-hybrid"));
    assert_says(
        &refuse(command),
        &["perfect-recall", "neither walks nor plays"],
    );
}

/// The model as a filter: it memorises 256 frames; then a frame of the place where it stands is no surprise, and another
/// one is.
#[test]
fn a_filter_memorises_and_is_then_surprised() {
    let frame = |level: f32| {
        let pixels: Vec<String> = (0..192)
            .map(|pixel| format!("{}", level + 0.001 * pixel as f32))
            .collect();
        format!(
            "{{\"x\": [{}], \"c\": [0, 0, 0, 0, 1]}}\n",
            pixels.join(", ")
        )
    };
    let mut lines = frame(0.3).repeat(258);
    lines.push_str(&frame(0.7));
    let mut command = mnemora(["filter"]);
    command.arg(pretrained("image-navigation"));
    let ended = run_with_input(command, lines.as_bytes());
    let beliefs: Vec<serde_json::Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert_eq!(beliefs.len(), 259, "{}", ended.stderr);
    let surprise: Vec<Option<f64>> = beliefs
        .iter()
        .map(|belief| belief["surprise"].as_f64())
        .collect();
    assert!(
        surprise[..256]
            .iter()
            .all(|surprise| surprise.is_none_or(|surprise| surprise == 0.0))
    );
    let [known, again, other] =
        [256, 257, 258].map(|step| surprise[step].expect("it is predicted"));
    assert!((known - again).abs() < 100.0, "{known} {again}");
    assert!(other > known + 100.0, "{known} {other}");
}

/// Keys in a terminal of its own: arrows and letters walk, q leaves, and the terminal is put back.
#[test]
fn keys_walk_in_a_terminal() {
    let keys = ["u", "\x1b[B", "l", "\x1b[C", "q"];
    let Some(shown) = in_terminal(&walk(&[]), &keys) else {
        return;
    };
    for step in [
        "step 1, up",
        "step 2, down",
        "step 3, left",
        "step 4, right",
    ] {
        assert!(shown.contains(step), "{step} is not shown");
    }
    assert!(shown.contains('▀'));
}
