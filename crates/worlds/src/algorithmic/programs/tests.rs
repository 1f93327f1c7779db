use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

const TARGET: Hardness = Hardness {
    length: 5,
    nesting: 3,
};

fn kind() -> impl Strategy<Value = ProgramKind> {
    proptest::sample::select(&ProgramKind::ALL[..])
}

fn part() -> impl Strategy<Value = Part> {
    proptest::sample::select(&Part::ALL[..])
}

fn curriculum() -> impl Strategy<Value = Curriculum> {
    let stage = Hardness {
        length: 2,
        nesting: 1,
    };
    proptest::sample::select(vec![
        Curriculum::Baseline,
        Curriculum::Naive(stage),
        Curriculum::Mix,
        Curriculum::Combined(stage),
    ])
}

fn task(kind: ProgramKind) -> Programs {
    Programs::new(kind, TARGET).expect("settings are in range")
}

proptest! {
    #[test]
    fn batches_hold_programs_and_what_they_print(
        kind in kind(),
        part in part(),
        curriculum in curriculum(),
        rows in 0usize..5,
        seed: u64,
        index: u64,
    ) {
        let task = task(kind);
        let batch = task.batch(part, &Stream::new(seed, "data"), index, rows, curriculum);
        prop_assert_eq!(batch.inputs.len(), rows * batch.time);
        prop_assert_eq!(batch.targets.len(), rows * batch.target_time);
        prop_assert_eq!(batch.lengths.iter().max().copied().unwrap_or(0), batch.time);
        prop_assert_eq!(batch.target_lengths.iter().max().copied().unwrap_or(0), batch.target_time);
        prop_assert!(batch.inputs.iter().all(|&number| usize::from(number) < Alphabet::SIZE));
        for row in 0..rows {
            let (source, answer) = (batch.source(row), batch.answer(row));
            prop_assert_eq!(part_of(&source), part);
            prop_assert_eq!(&task.answer(&source).unwrap(), &answer);
            prop_assert_eq!(batch.lengths[row], source.len() + 1);
            prop_assert_eq!(batch.target_lengths[row], answer.len() + 1);
            for (time, lengths, mask, numbers) in [
                (batch.time, &batch.lengths, &batch.input_mask, &batch.inputs),
                (batch.target_time, &batch.target_lengths, &batch.target_mask, &batch.targets),
            ] {
                for step in 0..time {
                    let at = row * time + step;
                    let within = step < lengths[row];
                    prop_assert_eq!(mask[at], f32::from(u8::from(within)));
                    let end = numbers[at] == Alphabet::END;
                    prop_assert_eq!(end, step + 1 >= lengths[row]);
                }
            }
            let bounded = match kind {
                ProgramKind::Addition | ProgramKind::Control => Some(5),
                ProgramKind::FullProgram => Some(6),
                _ => None,
            };
            if let Some(digits) = bounded {
                prop_assert!(answer.len() <= digits && !answer.starts_with('-'), "{}", answer);
            }
        }
    }

    #[test]
    fn program_is_a_function_of_seed_and_number(kind in kind(), seed: u64, index in 0u64..1 << 40) {
        let stream = Stream::new(seed, "data");
        let four = task(kind).batch(Part::Train, &stream, index, 4, Curriculum::Mix);
        prop_assert_eq!(&four, &task(kind).batch(Part::Train, &stream, index, 4, Curriculum::Mix));
        let two = task(kind).batch(Part::Train, &stream, 2 * index + 1, 2, Curriculum::Mix);
        for row in 0..2 {
            prop_assert_eq!(four.source(row + 2), two.source(row));
        }
    }

    #[test]
    fn literals_are_as_long_as_the_curriculum_says(kind in kind(), seed: u64) {
        let stream = Stream::new(seed, "data");
        let longest = |curriculum| {
            let source = task(kind).batch(Part::Train, &stream, 0, 1, curriculum).source(0);
            let program = source.strip_suffix("print(x % 10**length)").unwrap_or(&source).to_owned();
            let numbers = program.split(|next: char| !next.is_ascii_digit()).map(str::len);
            numbers.max().unwrap_or(0)
        };
        let stage = Hardness { length: 2, nesting: 3 };
        match kind {
            // Uniform up to 10^L, which has one digit more.
            ProgramKind::Original => prop_assert!(longest(Curriculum::Baseline) <= 6),
            _ => {
                prop_assert_eq!(longest(Curriculum::Baseline), 5);
                prop_assert_eq!(longest(Curriculum::Naive(stage)), 2);
                prop_assert!(longest(Curriculum::Mix) <= 5);
            }
        }
    }
}

/// Even the easiest stage, which has the fewest programs, has programs in every part.
#[test]
fn every_part_has_programs_of_every_kind() {
    for kind in ProgramKind::ALL {
        let task = Programs::new(kind, Hardness::EASIEST).unwrap();
        for part in Part::ALL {
            task.batch(part, &Stream::new(1, "data"), 0, 8, Curriculum::Baseline);
        }
    }
}

#[test]
fn parts_are_of_equal_size_and_share_nothing() {
    let mut counts = [0; 3];
    let mut generator = Stream::new(5, "data").at(0);
    for _ in 0..3000 {
        let mut draw = generate::Draw {
            generator: &mut generator,
            target: TARGET,
            curriculum: Curriculum::Mix,
        };
        let part = part_of(&generate::source(ProgramKind::FullProgram, &mut draw));
        counts[Part::ALL.iter().position(|other| *other == part).unwrap()] += 1;
    }
    assert!(
        counts.iter().all(|count| (900..1100).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn curricula_draw_what_they_say() {
    let mut generator = Stream::new(2, "data").at(0);
    let stage = Hardness {
        length: 1,
        nesting: 2,
    };
    let mut drawn = |curriculum: Curriculum| -> Vec<Hardness> {
        let draws = (0..15_000).map(|_| curriculum.draw(TARGET, &mut generator));
        draws.collect()
    };
    assert!(drawn(Curriculum::Baseline).iter().all(|it| *it == TARGET));
    assert!(
        drawn(Curriculum::Naive(stage))
            .iter()
            .all(|it| *it == stage)
    );
    let mixed = drawn(Curriculum::Mix);
    for length in 1..=5 {
        for nesting in 1..=3 {
            let cell = Hardness { length, nesting };
            let count = mixed.iter().filter(|it| **it == cell).count();
            assert!((850..1150).contains(&count), "{cell:?}: {count}");
        }
    }
    let naive = drawn(Curriculum::Combined(stage));
    let count = naive.iter().filter(|it| **it == stage).count();
    // 4/5, plus 1/15 of the fifth that is mixed.
    assert!((11_950..12_450).contains(&count), "{count}");

    let mut stages = vec![Hardness::EASIEST];
    while let Some(next) = stages[stages.len() - 1].next(TARGET) {
        stages.push(next);
    }
    assert_eq!(stages.len(), 15);
    assert_eq!(stages[14], TARGET);
    assert_eq!((stages[4].length, stages[5].length), (5, 1));
    let beyond = Hardness {
        length: 99,
        nesting: 99,
    };
    assert_eq!(beyond.within(TARGET), TARGET);
}

#[test]
fn strings_are_repeated_reversed_and_doubled() {
    assert_eq!(task(ProgramKind::Copy).answer("1230").unwrap(), "1230");
    assert_eq!(task(ProgramKind::Reverse).answer("1230").unwrap(), "0321");
    assert_eq!(
        task(ProgramKind::Double).answer("1230").unwrap(),
        "12301230"
    );
    let refusal = task(ProgramKind::Reverse).answer("12x").unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "program, line 1, column 3: a string to reverse may contain only digits"
    );
}

#[test]
fn no_text_is_longer_than_is_said() {
    for kind in ProgramKind::ALL {
        for (length, nesting) in [(1, 1), (5, 2), (3, 3), (12, 10)] {
            let task = Programs::new(kind, Hardness { length, nesting }).unwrap();
            let (program, answer) = task.most_characters();
            let stream = Stream::new(3, "data");
            let batch = task.batch(Part::Train, &stream, 0, 400, Curriculum::Baseline);
            let found = (batch.time, batch.target_time);
            assert!(
                found.0 <= program && found.1 <= answer,
                "{task:?}: {found:?}"
            );
            // Nor much larger, since memories are given this size.
            assert!(2 * found.0 > program, "{task:?}: {found:?} {program}");
        }
    }
}

#[test]
fn characters_are_compared_up_to_the_end_of_the_target() {
    let stream = Stream::new(1, "data");
    let batch = task(ProgramKind::Copy).batch(Part::Test, &stream, 0, 3, Curriculum::Mix);
    let all: usize = batch.target_lengths.iter().sum();
    let right = batch.correct(&batch.targets);
    assert_eq!((right.characters, right.all_characters), (all, all));
    assert_eq!((right.answers, right.all_answers), (3, 3));
    // A wrong prediction after the end does not count, but a wrong end mark does.
    let mut predictions = batch.targets.clone();
    for (prediction, mask) in predictions.iter_mut().zip(&batch.target_mask) {
        *prediction = if *mask == 0.0 { 0 } else { *prediction };
    }
    assert_eq!(batch.correct(&predictions), right);
    predictions[batch.target_lengths[0] - 1] = 0;
    let wrong = batch.correct(&predictions);
    assert_eq!((wrong.characters, wrong.answers), (all - 1, 2));
    assert_eq!(wrong.character_accuracy(), (all - 1) as f64 / all as f64);
    assert_eq!(batch.correct(&[]).characters, 0);
}

#[test]
fn golden_programs() {
    let stream = Stream::new(1, "data");
    let sources = ProgramKind::ALL.map(|kind| {
        let batch = task(kind).batch(Part::Train, &stream, 0, 1, Curriculum::Mix);
        (batch.source(0), batch.answer(0))
    });
    let sources: Vec<(&str, &str)> = sources.iter().map(|(a, b)| (&**a, &**b)).collect();
    assert_eq!(sources, GOLDEN);
}

/// Published numbers depend on these programs.
const GOLDEN: [(&str, &str); 7] = [
    ("print((3113-385))", "2728"),
    ("x=(6926+(5+29529))+20096\nprint(x % 10**length)", "56556"),
    (
        "x = 3 if 6 < 597 else (975 + 225)\nprint(x % 10**length)",
        "3",
    ),
    ("x=(2-(905+975))-4475\nprint(x % 10**length)", "993647"),
    ("210", "210"),
    ("210", "012"),
    ("210", "210210"),
];

#[test]
fn impossible_settings_name_their_key() {
    let message = |kind, length, nesting| {
        let refused = Programs::new(kind, Hardness { length, nesting });
        refused.unwrap_err().to_string()
    };
    assert_eq!(
        message(ProgramKind::Control, 13, 2),
        "task.programs.literal_length = 13: the digits of a literal must be from 1 to 12 for control"
    );
    assert_eq!(
        message(ProgramKind::Copy, 20, 0),
        "task.programs.nesting = 0: the operations of a program must be from 1 to 10"
    );
    let refused = task(ProgramKind::Addition).with_modulus_digits(19);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "task.programs.modulus_digits = 19: the digits of an answer must be from 1 to 18"
    );
}

/// Any expression of the language, with brackets at random places.
fn expression(generator: &mut ChaCha8Rng, depth: usize) -> String {
    let inner = |generator: &mut ChaCha8Rng| expression(generator, depth.saturating_sub(1));
    let choices = if depth == 0 { 2 } else { 9 };
    match generator.random_range(0..choices) {
        0 => generator.random_range(0..1000).to_string(),
        1 => "length".to_owned(),
        2 => format!("({})", inner(generator)),
        3 => format!("-{}", inner(generator)),
        4 => format!(
            "{}**{}",
            generator.random_range(0..10),
            generator.random_range(0..4)
        ),
        5 => {
            let comparison = ["<", " > "][generator.random_range(0..2)];
            let parts: Vec<String> = (0..4).map(|_| inner(generator)).collect();
            // The parts of a condition are sums, so choices within them need brackets.
            format!(
                "({}) if ({}){comparison}({}) else {}",
                parts[0], parts[1], parts[2], parts[3]
            )
        }
        _ => {
            let operator = ["+", "-", "*", "%", " + ", " - "][generator.random_range(0..6)];
            let (left, right) = (inner(generator), inner(generator));
            format!("{left}{operator}{right}")
        }
    }
}

/// Rewrites the text of the two forms that are not Python: loops, and blocks in brackets, which are put before
/// the statement that uses them.
const EXECUTE: &str = r#"
import contextlib, io, json, re, sys

def translate(source):
    while block := re.search(r"x = \((?=x ?=)", source):
        depth, end = 1, block.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(source[end], 0)
            end += 1
        source = source[: block.start()] + source[block.end() : end - 1] + source[end:]
    return re.sub(r"for\[(\d+)\]", r"for _ in range(\1):", source)

for line in sys.stdin:
    source, length = json.loads(line)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(translate(source), {"length": length})
        print(printed.getvalue().strip())
    except ZeroDivisionError:
        print("division by 0")
"#;

#[test]
fn python_prints_the_same() {
    let present = Command::new("python3").arg("--version").output();
    if !present.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no python3 to execute programs with");
        return;
    }
    let mut programs: Vec<(String, usize)> = Vec::new();
    let kinds = ProgramKind::ALL
        .into_iter()
        .filter(|kind| !kind.is_memorization());
    for kind in kinds {
        for (length, nesting) in [(1, 1), (5, 2), (7, 4), (12, 10)] {
            let task = Programs::new(kind, Hardness { length, nesting }).unwrap();
            for curriculum in [Curriculum::Baseline, Curriculum::Mix] {
                let stream = Stream::new(7, "data");
                let batch = task.batch(Part::Test, &stream, 0, 200, curriculum);
                programs.extend((0..200).map(|row| (batch.source(row), task.modulus_digits)));
            }
        }
    }
    let mut generator = Stream::new(8, "expressions").at(0);
    for _ in 0..4000 {
        let (a, b) = (expression(&mut generator, 3), expression(&mut generator, 4));
        let times = generator.random_range(0..5);
        let source = format!("a={a}\nfor i in range({times}):a-={b}\nprint(a + ({b}))");
        programs.push((source, 3));
    }

    let mut python = Command::new("python3")
        .args(["-c", EXECUTE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 was there a moment ago");
    let mut input = python.stdin.take().expect("its input is piped");
    let lines: Vec<String> = programs
        .iter()
        .map(|program| serde_json::to_string(program).expect("text and a number are JSON"))
        .collect();
    // Python answers while it is still reading; without a thread, both pipes could fill up.
    let writer = std::thread::spawn(move || input.write_all((lines.join("\n") + "\n").as_bytes()));
    let output = python.wait_with_output().expect("python3 ends");
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<&str> = printed.lines().collect();
    assert_eq!(printed.len(), programs.len());
    let mut too_large = 0;
    for ((source, length), printed) in programs.iter().zip(printed) {
        match evaluate_program(source, *length as u32) {
            Ok(value) => assert_eq!(value.to_string(), *printed, "{source}"),
            Err(error) if error.to_string().contains("too large") => too_large += 1,
            Err(error) => {
                assert!(
                    error.to_string().contains("division by 0"),
                    "{source}: {error}"
                );
                assert_eq!(printed, "division by 0", "{source}");
            }
        }
    }
    assert!(too_large < programs.len() / 20, "{too_large} too large");
}
