//! The task `programs`: which programs, how hard, from which on, and what a decoder reads.

use super::{TaskKind, TaskSettings};
use crate::keys::flatten;
use mnemora_worlds::{Curriculum, Error, Hardness, ProgramKind, Programs};
use serde::{Deserialize, Serialize};
use toml::Table;

/// Programs to be executed, or strings to be memorised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramSettings {
    /// Which programs: `addition`, `control`, `full-program` (Santoro et al. 2018), `original` (Zaremba,
    /// Sutskever 2014); or what is done with a string of digits: `copy`, `reverse`, `double`.
    pub family: FamilyName,
    /// Digits of the longest literals, to 12; of the longest strings. Held-out ones are as long.
    pub literal_length: usize,
    /// Most operations of a program, to 10, as many as held-out ones have; 1 for strings.
    pub nesting: usize,
    /// How hard training's programs are: `baseline`, as hard as held-out ones; `mix`, each length and
    /// nesting drawn from 1 up; `naive`, the easiest first, harder by a stage whenever the moving
    /// accuracy is `task.admit_at`; `combined`, four of five `naive`, else `mix`.
    pub curriculum: CurriculumName,
    /// Digits that answers of `addition`, `control` and `full-program` keep; 0 for those of a
    /// literal, and one more for `full-program`.
    pub modulus_digits: usize,
}

/// The families of programs by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FamilyName {
    /// Sums and differences.
    Addition,
    /// Choices within choices.
    Control,
    /// Sums, choices and loops.
    FullProgram,
    /// Those of Zaremba and Sutskever.
    Original,
    /// A string again.
    Copy,
    /// A string backwards.
    Reverse,
    /// A string twice.
    Double,
}

/// The curricula by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CurriculumName {
    /// Always the hardest.
    Baseline,
    /// From the easiest on.
    Naive,
    /// All at once.
    Mix,
    /// Both.
    Combined,
}

/// What a decoder reads, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecoderInputName {
    /// The probabilities that it gave before.
    Probabilities,
    /// The symbol that was the most probable before.
    Symbol,
    /// Nothing.
    Nothing,
    /// In training the right symbol; else that which was the most probable.
    Truth,
}

impl FamilyName {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Addition,
        Self::Control,
        Self::FullProgram,
        Self::Original,
        Self::Copy,
        Self::Reverse,
        Self::Double,
    ];

    /// As in configurations.
    pub fn as_str(self) -> &'static str {
        self.kind().as_str()
    }

    fn kind(self) -> ProgramKind {
        match self {
            Self::Addition => ProgramKind::Addition,
            Self::Control => ProgramKind::Control,
            Self::FullProgram => ProgramKind::FullProgram,
            Self::Original => ProgramKind::Original,
            Self::Copy => ProgramKind::Copy,
            Self::Reverse => ProgramKind::Reverse,
            Self::Double => ProgramKind::Double,
        }
    }
}

impl CurriculumName {
    /// The curriculum at a stage, for those that have stages.
    pub(crate) fn at(self, stage: Hardness) -> Curriculum {
        match self {
            Self::Baseline => Curriculum::Baseline,
            Self::Naive => Curriculum::Naive(stage),
            Self::Mix => Curriculum::Mix,
            Self::Combined => Curriculum::Combined(stage),
        }
    }

    /// Whether it goes from stage to stage.
    pub(crate) fn has_stages(self) -> bool {
        matches!(self, Self::Naive | Self::Combined)
    }
}

impl Default for ProgramSettings {
    fn default() -> Self {
        Self {
            family: FamilyName::Addition,
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
    /// A setting is out of range; the error names its key.
    pub(crate) fn task(&self) -> Result<Programs, Error> {
        let target = Hardness {
            length: self.literal_length,
            nesting: self.nesting,
        };
        let task = Programs::new(self.family.kind(), target)?;
        match self.modulus_digits {
            0 => Ok(task),
            digits => task.with_modulus_digits(digits),
        }
    }

    /// Steps of the longest program and its answer.
    pub(crate) fn time(&self) -> usize {
        self.task().map_or(0, |task| {
            let (program, answer) = task.most_characters();
            program + answer
        })
    }

    /// The task and its sizes in words.
    pub(crate) fn words(&self) -> String {
        let (family, length) = (self.family.as_str(), self.literal_length);
        match self.family.kind().is_memorization() {
            true => format!("{family} of up to {length} digits"),
            false => format!(
                "{family} with literals of up to {length} digits and nesting {}",
                self.nesting
            ),
        }
    }

    /// Refuses what is out of range, and keys that the family does not follow.
    fn validate(&self) -> Result<(), String> {
        self.task().map_err(|error| error.to_string())?;
        let family = self.family;
        if family.kind().is_memorization() && self.nesting != 1 {
            return Err(format!(
                "task.programs.nesting is {}, it must be 1 for {}: a string has no operations",
                self.nesting,
                family.as_str()
            ));
        }
        let has_modulus = matches!(
            family,
            FamilyName::Addition | FamilyName::Control | FamilyName::FullProgram
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
    /// The task `programs` follows its own table and `task.admit_at`, and no other task follows its
    /// table: what was set in vain is refused.
    pub(super) fn validate_programs(&self) -> Result<(), String> {
        let programs = self.name.kind() == TaskKind::Programs;
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
                "{key} is {value}, but the task {} does not follow it",
                self.name.as_str()
            )),
        }
    }
}
