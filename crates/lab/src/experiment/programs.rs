//! The task `programs`: kind and difficulty of programs, the curriculum, and the decoder's input.

use super::TaskSettings;
use super::keys::flatten;
use mnemora_worlds::{Curriculum, Error, Hardness, ProgramKind, Programs};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Table;

/// Programs to be executed, or strings to be memorised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProgramSettings {
    /// The kind of program: `addition`, `control`, `full-program` (Santoro et al. 2018), `original` (Zaremba, Sutskever
    /// 2014); or an operation on a string of digits: `copy`, `reverse`, `double`.
    pub family: ProgramKind,
    /// Digits of the longest literals, at most 12, or of the longest strings. Held-out ones have this length.
    pub literal_length: usize,
    /// Largest number of operations in a program, at most 10; held-out programs have this many. 1 for strings.
    pub nesting: usize,
    /// Difficulty of training programs. `baseline`: as hard as held-out ones. `mix`: length and nesting drawn from 1
    /// up. `naive`: the easiest first, then one stage harder whenever the moving accuracy reaches `task.admit_at`.
    /// `combined`: four of five programs `naive`, the others `mix`.
    pub curriculum: CurriculumName,
    /// Digits kept of the answers of `addition`, `control` and `full-program`. 0 for as many as a literal has, and one
    /// more for `full-program`.
    pub modulus_digits: usize,
}

/// The curricula by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CurriculumName {
    /// Always the hardest.
    Baseline,
    /// From the easiest to the hardest.
    Naive,
    /// All levels at once.
    Mix,
    /// Both.
    Combined,
}

impl CurriculumName {
    /// The curriculum at a stage, if it has stages.
    pub(crate) fn at(self, stage: Hardness) -> Curriculum {
        match self {
            Self::Baseline => Curriculum::Baseline,
            Self::Naive => Curriculum::Naive(stage),
            Self::Mix => Curriculum::Mix,
            Self::Combined => Curriculum::Combined(stage),
        }
    }

    /// Whether it has stages.
    pub(crate) fn has_stages(self) -> bool {
        matches!(self, Self::Naive | Self::Combined)
    }
}

impl Default for ProgramSettings {
    fn default() -> Self {
        Self {
            family: ProgramKind::Addition,
            literal_length: 5,
            nesting: 1,
            curriculum: CurriculumName::Mix,
            modulus_digits: 0,
        }
    }
}

impl ProgramSettings {
    /// The task.
    ///
    /// # Errors
    /// If a setting is out of range; the error names its key.
    pub(crate) fn task(&self) -> Result<Programs, Error> {
        let target = Hardness {
            length: self.literal_length,
            nesting: self.nesting,
        };
        let task = Programs::new(self.family, target)?;
        match self.modulus_digits {
            0 => Ok(task),
            digits => task.with_modulus_digits(digits),
        }
    }

    /// Steps of the longest program with its answer.
    pub(crate) fn time(&self) -> usize {
        self.task().map_or(0, |task| {
            let (program, answer) = task.most_characters();
            program + answer
        })
    }

    /// The task and its sizes, in words.
    pub(crate) fn words(&self) -> String {
        let (family, length) = (self.family.as_str(), self.literal_length);
        match self.family.is_memorization() {
            true => format!("{family} of up to {length} digits"),
            false => format!(
                "{family} with literals of up to {length} digits and nesting {}",
                self.nesting
            ),
        }
    }

    /// Checks ranges, and refuses keys that the family does not use.
    fn validate(&self) -> Result<(), String> {
        self.task().map_err(|error| error.to_string())?;
        let family = self.family;
        if family.is_memorization() && self.nesting != 1 {
            return Err(format!(
                "task.programs.nesting is {}, it must be 1 for {}: a string has no operations",
                self.nesting,
                family.as_str()
            ));
        }
        let has_modulus = matches!(
            family,
            ProgramKind::Addition | ProgramKind::Control | ProgramKind::FullProgram
        );
        if !has_modulus && self.modulus_digits != 0 {
            return Err(format!(
                "task.programs.modulus_digits is {}, it must be 0 for {}, whose answers are printed whole",
                self.modulus_digits,
                family.as_str()
            ));
        }
        Ok(())
    }
}

impl TaskSettings {
    /// Only `programs` uses its own table, and of the other task keys it uses only `task.admit_at`: settings without
    /// effect are errors.
    pub(super) fn validate_programs(&self) -> Result<(), String> {
        let programs = self.name.as_str() == "programs";
        if programs {
            self.programs.validate()?;
        }
        let defaults = Self {
            name: self.name,
            admit_at: self.admit_at,
            ..Self::default()
        };
        let flat = |settings: &Self| -> Result<_, String> {
            let table = Table::try_from(settings).map_err(|error| error.to_string())?;
            let mut values = Vec::new();
            flatten(&table, "task", &mut values);
            Ok(values)
        };
        let changed = flat(self)?.into_iter().zip(flat(&defaults)?);
        let in_vain = |key: &str| key.starts_with("task.programs.") != programs;
        match changed
            .filter(|(found, default)| found != default)
            .find(|((key, _), _)| in_vain(key))
        {
            None => Ok(()),
            Some(((key, value), _)) => Err(format!(
                "{key} is {value}, but the task {} does not use it",
                self.name.as_str()
            )),
        }
    }
}
