//! Learning to execute: read a program character by character, then write its output. It is supervised,
//! so its batches have targets instead of frames to predict.
//!
//! The task and its curricula are those of Zaremba and Sutskever 2014; the three families of programs and
//! the memorisation tasks are those of Santoro et al. 2018 (relational recurrent neural networks), section
//! 4.1 and appendix A.2. The output of a program is computed by an interpreter that reads its text
//! (`programs/language.rs`), independently of the generator.
//!
//! ```
//! use mnemora_worlds::{Alphabet, Curriculum, Hardness, Part, ProgramKind, Programs, Stream};
//!
//! let task = Programs::new(ProgramKind::FullProgram, Hardness { length: 5, nesting: 2 })?;
//! let batch = task.batch(Part::Train, &Stream::new(1, "data"), 0, 128, Curriculum::Mix);
//! assert_eq!(batch.inputs.len(), 128 * batch.time);
//! println!("{}\nprints {}", batch.source(0), batch.answer(0));
//! # Ok::<(), mnemora_worlds::Error>(())
//! ```

mod alphabet;
mod generate;
mod language;

use std::fmt;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

pub use self::alphabet::Alphabet;
pub use self::language::evaluate_program;
use crate::settings::check;
use crate::{Error, Part, Stream, sequence_number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of programs, or the operation on a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramKind {
    /// All operations of Zaremba and Sutskever 2014: sums, small products, variables, loops, choices. The
    /// answer may be negative.
    Original,
    /// Sums and differences in brackets: `x=473278230+(1257657+32721978)`.
    Addition,
    /// Choices within choices: `x = 221 if ((411 if 918 > 314 else 680) + 321) < 778 else 652`.
    Control,
    /// Sums, choices and loops, one after the other.
    FullProgram,
    /// A string of digits, to be repeated.
    Copy,
    /// A string of digits, to be written backwards.
    Reverse,
    /// A string of digits, to be written twice.
    Double,
}

impl ProgramKind {
    /// All kinds.
    pub const ALL: [ProgramKind; 7] = [
        ProgramKind::Original,
        ProgramKind::Addition,
        ProgramKind::Control,
        ProgramKind::FullProgram,
        ProgramKind::Copy,
        ProgramKind::Reverse,
        ProgramKind::Double,
    ];

    /// Name in experiments.
    pub fn as_str(self) -> &'static str {
        match self {
            ProgramKind::Original => "original",
            ProgramKind::Addition => "addition",
            ProgramKind::Control => "control",
            ProgramKind::FullProgram => "full-program",
            ProgramKind::Copy => "copy",
            ProgramKind::Reverse => "reverse",
            ProgramKind::Double => "double",
        }
    }

    /// Whether the input is a string of digits instead of a program.
    pub fn is_memorization(self) -> bool {
        matches!(
            self,
            ProgramKind::Copy | ProgramKind::Reverse | ProgramKind::Double
        )
    }
}

impl fmt::Display for ProgramKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The hardness of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hardness {
    /// Digits of a literal; for memorisation, of the string.
    pub length: usize,
    /// Number of operations that are composed; unused for memorisation.
    pub nesting: usize,
}

impl Hardness {
    /// The easiest: where the naive curriculum begins.
    pub const EASIEST: Hardness = Hardness {
        length: 1,
        nesting: 1,
    };

    /// The next stage of the naive curriculum on the way to `target`: longer literals, and past the
    /// longest, one more operation and short literals again. `None` at the target.
    pub fn next(self, target: Hardness) -> Option<Hardness> {
        if self.length < target.length {
            return Some(Hardness {
                length: self.length + 1,
                ..self
            });
        }
        (self.nesting < target.nesting).then_some(Hardness {
            length: 1,
            nesting: self.nesting + 1,
        })
    }
}

/// The distribution of hardness on the way to the hardest programs, the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curriculum {
    /// Always the target: also what models are evaluated on.
    Baseline,
    /// This stage; the training code advances it with [`Hardness::next`].
    Naive(Hardness),
    /// Length and nesting, each uniform from 1 to that of the target.
    Mix,
    /// With probability 4/5 this naive stage, otherwise mix.
    Combined(Hardness),
}

impl Curriculum {
    fn draw(self, target: Hardness, generator: &mut ChaCha8Rng) -> Hardness {
        match self {
            Curriculum::Baseline => target,
            Curriculum::Naive(stage) => stage.within(target),
            Curriculum::Combined(stage) if generator.random_range(0..5) != 0 => {
                stage.within(target)
            }
            Curriculum::Mix | Curriculum::Combined(_) => Hardness {
                length: generator.random_range(1..=target.length),
                nesting: generator.random_range(1..=target.nesting),
            },
        }
    }
}

impl Hardness {
    fn within(self, target: Hardness) -> Hardness {
        Hardness {
            length: self.length.clamp(1, target.length),
            nesting: self.nesting.clamp(1, target.nesting),
        }
    }
}

/// Programs of one kind up to a target hardness.
///
/// The curriculum draws the length of each literal and the number of operations of each program. The
/// three families of Santoro et al. print their value modulo `10**length`, where `length` is always that of the
/// target, not the drawn one, so that the answer follows from the text. For full programs it is one more, which
/// agrees with all answers printed in figure 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Programs {
    kind: ProgramKind,
    target: Hardness,
    modulus_digits: usize,
}

/// One batch of programs and answers, as numbers of the [`Alphabet`].
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramBatch {
    /// `[batch, time]` row-major: the program and its end mark, padded with end marks.
    pub inputs: Vec<u8>,
    /// `[batch]`: characters of each program, including its end mark.
    pub lengths: Vec<usize>,
    /// `[batch, time]`: 1 within a program, otherwise 0.
    pub input_mask: Vec<f32>,
    /// `[batch, target_time]` row-major: the answer and its end mark, padded with end marks.
    pub targets: Vec<u8>,
    /// `[batch, target_time]`: 1 within an answer and its end mark, otherwise 0.
    pub target_mask: Vec<f32>,
    /// `[batch]`: characters of each answer, including its end mark.
    pub target_lengths: Vec<usize>,
    /// Number of programs.
    pub batch: usize,
    /// Characters of the longest program, including its end mark.
    pub time: usize,
    /// Characters of the longest answer, including its end mark.
    pub target_time: usize,
}

/// Counts of right characters and right answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Correct {
    /// Number of target characters that were predicted correctly.
    pub characters: usize,
    /// Number of target characters, including end marks.
    pub all_characters: usize,
    /// Number of answers with every character right.
    pub answers: usize,
    /// Number of answers.
    pub all_answers: usize,
}

impl Correct {
    /// Per-character accuracy, the measure of Santoro et al.; NaN if there are no characters.
    pub fn character_accuracy(&self) -> f64 {
        self.characters as f64 / self.all_characters as f64
    }

    /// The fraction of answers with every character right; NaN if there are no answers.
    pub fn answer_accuracy(&self) -> f64 {
        self.answers as f64 / self.all_answers as f64
    }

    /// The sum of both counts.
    pub fn plus(self, other: Correct) -> Correct {
        Correct {
            characters: self.characters + other.characters,
            all_characters: self.all_characters + other.all_characters,
            answers: self.answers + other.answers,
            all_answers: self.all_answers + other.all_answers,
        }
    }
}

impl Programs {
    /// Programs up to `target`: literals of at most `task.programs.literal_length` digits, at most
    /// `task.programs.nesting` operations.
    ///
    /// # Errors
    /// The length is not in `1..=12` (memorisation: `1..=10_000`), the nesting not in `1..=10`.
    pub fn new(kind: ProgramKind, target: Hardness) -> Result<Programs, Error> {
        let longest = if kind.is_memorization() { 10_000 } else { 12 };
        check(
            "task.programs.literal_length",
            target.length,
            1..=longest,
            || format!("the digits of a literal must be from 1 to {longest} for {kind}"),
        )?;
        check("task.programs.nesting", target.nesting, 1..=10, || {
            "the operations of a program must be from 1 to 10".to_owned()
        })?;
        let modulus_digits = target.length + usize::from(kind == ProgramKind::FullProgram);
        Ok(Programs {
            kind,
            target,
            modulus_digits,
        })
    }

    /// The same with answers modulo `10**digits`, in the three families that have a modulus.
    ///
    /// # Errors
    /// `digits` (`task.programs.modulus_digits`) is not in `1..=18`.
    pub fn with_modulus_digits(self, digits: usize) -> Result<Programs, Error> {
        check("task.programs.modulus_digits", digits, 1..=18, || {
            "the digits of an answer must be from 1 to 18".to_owned()
        })?;
        Ok(Programs {
            modulus_digits: digits,
            ..self
        })
    }

    /// The kind of the programs.
    pub fn kind(&self) -> ProgramKind {
        self.kind
    }

    /// The hardest programs.
    pub fn target(&self) -> Hardness {
        self.target
    }

    /// Upper bounds on the characters of a program and of an answer of this task, including end marks.
    pub fn most_characters(&self) -> (usize, usize) {
        let Hardness { length, nesting } = self.target;
        // Characters that each operation adds: signs, words, brackets, and its literals.
        let assignment = |first: usize, operation: usize| {
            let printing = "\nprint(x % 10**length)".len();
            first + length + nesting * operation + printing + 1
        };
        let answer = self.modulus_digits + 1;
        match self.kind {
            ProgramKind::Addition => (assignment("x=".len(), length + "(+)".len()), answer),
            ProgramKind::Control => {
                let choice = "( if  <  else )".len() + 3 * length;
                (assignment("x = ".len(), choice), answer)
            }
            ProgramKind::FullProgram => {
                let choice = "\nx = (x if  <  else )".len() + 3 * length;
                (assignment("x = ".len(), choice), answer)
            }
            ProgramKind::Original => {
                // A literal up to 10^L has one digit more; a factor, up to 4 L, has two digits.
                let literal = length + 1;
                let choice = "( if > else )".len() + 3 * literal;
                let operation = choice.max("a=\nfor x in range(48):a+=\n".len() + 2 * literal);
                let program = literal + nesting * operation + "print()".len() + 1;
                (program, literal + 3 * nesting + "-".len() + 1)
            }
            ProgramKind::Copy | ProgramKind::Reverse => (length + 1, length + 1),
            ProgramKind::Double => (length + 1, 2 * length + 1),
        }
    }

    /// The output of a program of this task, or the result for a string.
    ///
    /// # Errors
    /// As [`evaluate_program`]; a string may contain only digits.
    pub fn answer(&self, source: &str) -> Result<String, Error> {
        if !self.kind.is_memorization() {
            let length = self.modulus_digits as u32;
            return Ok(evaluate_program(source, length)?.to_string());
        }
        if let Some(at) = source.chars().position(|digit| !digit.is_ascii_digit()) {
            return Err(Error::Program {
                line: 1,
                column: at + 1,
                problem: format!("a string to {} may contain only digits", self.kind),
            });
        }
        Ok(match self.kind {
            ProgramKind::Reverse => source.chars().rev().collect(),
            ProgramKind::Double => source.repeat(2),
            _ => source.to_owned(),
        })
    }

    /// Batch `index` of `batch` programs of `part`; row `r` is made only from draw
    /// `sequence_number(index, batch, r)` of `stream`.
    ///
    /// A program always belongs to the same part, by a hash of its text modulo 3. So no part contains a
    /// program of another, with any seed and curriculum.
    pub fn batch(
        &self,
        part: Part,
        stream: &Stream,
        index: u64,
        batch: usize,
        curriculum: Curriculum,
    ) -> ProgramBatch {
        let rows: Vec<(String, String)> = (0..batch)
            .map(|row| {
                let number = sequence_number(index, batch, row);
                let source = self.source(part, &mut stream.at(number), curriculum);
                let answer = self
                    .answer(&source)
                    .expect("what is generated is in the language");
                (source, answer)
            })
            .collect();
        let numbers = |text: &str| {
            let mut numbers = Alphabet::encode(text).expect("what is generated is in the alphabet");
            numbers.push(Alphabet::END);
            numbers
        };
        let inputs = Padded::new(rows.iter().map(|(source, _)| numbers(source)).collect());
        let targets = Padded::new(rows.iter().map(|(_, answer)| numbers(answer)).collect());
        ProgramBatch {
            inputs: inputs.numbers,
            lengths: inputs.lengths,
            input_mask: inputs.mask,
            targets: targets.numbers,
            target_mask: targets.mask,
            target_lengths: targets.lengths,
            batch,
            time: inputs.time,
            target_time: targets.time,
        }
    }

    /// Draws programs until one belongs to `part`.
    fn source(&self, part: Part, generator: &mut ChaCha8Rng, curriculum: Curriculum) -> String {
        loop {
            let source = generate::source(
                self.kind,
                &mut generate::Draw {
                    generator,
                    target: self.target,
                    curriculum,
                },
            );
            if part_of(&source) == part {
                return source;
            }
        }
    }
}

/// The part to which a program belongs: the first eight bytes of SHA-256 of its text, as a
/// little-endian number, modulo 3.
fn part_of(source: &str) -> Part {
    let hash = Sha256::digest(source);
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    Part::ALL[(u64::from_le_bytes(first) % 3) as usize]
}

/// Texts of different lengths in one array.
struct Padded {
    numbers: Vec<u8>,
    mask: Vec<f32>,
    lengths: Vec<usize>,
    time: usize,
}

impl Padded {
    fn new(texts: Vec<Vec<u8>>) -> Padded {
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        let time = lengths.iter().copied().max().unwrap_or(0);
        let mut numbers = vec![Alphabet::END; texts.len() * time];
        let mut mask = vec![0.0; texts.len() * time];
        for (row, text) in texts.iter().enumerate() {
            numbers[row * time..][..text.len()].copy_from_slice(text);
            mask[row * time..][..text.len()].fill(1.0);
        }
        Padded {
            numbers,
            mask,
            lengths,
            time,
        }
    }
}

impl ProgramBatch {
    /// The text of a program, without its end; empty outside the batch.
    pub fn source(&self, row: usize) -> String {
        text_of(&self.inputs, self.time, row)
    }

    /// The answer to a program, without its end; empty outside the batch.
    pub fn answer(&self, row: usize) -> String {
        text_of(&self.targets, self.target_time, row)
    }

    /// Counts right `predictions`, `[batch, target_time]` row-major: each character of a target is
    /// compared with the prediction at its place. Predictions after the target's end do not count; a missing
    /// prediction is wrong.
    pub fn correct(&self, predictions: &[u8]) -> Correct {
        let mut correct = Correct::default();
        for (row, &length) in self.target_lengths.iter().enumerate() {
            let start = row * self.target_time;
            let right = (start..start + length)
                .filter(|&at| predictions.get(at) == Some(&self.targets[at]))
                .count();
            correct = correct.plus(Correct {
                characters: right,
                all_characters: length,
                answers: usize::from(right == length),
                all_answers: 1,
            });
        }
        correct
    }
}

fn text_of(numbers: &[u8], time: usize, row: usize) -> String {
    let from = row.saturating_mul(time);
    let row = numbers.get(from..).unwrap_or(&[]);
    Alphabet::decode(&row[..time.min(row.len())])
}

#[cfg(test)]
mod tests;
