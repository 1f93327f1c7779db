//! The description of a measured number.

/// Whether larger or smaller values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The larger the better.
    Higher,
    /// The smaller the better.
    Lower,
    /// Neither: the number only describes.
    Neither,
}

/// How a number is written in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// About five significant digits.
    Digits,
    /// This many decimals.
    Decimals(usize),
    /// A fraction as percent, with this many decimals.
    Percent(usize),
    /// A series on one line, each value as percent without decimals.
    Percents,
    /// A series, one table row per value.
    Rows,
}

/// The standard error of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Its path in an evaluation.
    pub path: &'static str,
    /// What the error is taken over, such as `sequences`.
    pub over: &'static str,
}

/// How a quantity appears when runs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Not at all.
    Left,
    /// In the numbers, but not in the table.
    Numbers,
    /// In the table too, under its name and with at most this many decimals.
    Column(usize),
}

/// Which value of a series represents it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The first.
    First,
    /// The last.
    Last,
}

/// How the evidence tables of `results/` show a quantity: name, unit and decimals. They show values as measured,
/// fractions not as percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its name there.
    pub name: &'static str,
    /// Its unit there.
    pub unit: &'static str,
    /// Its decimals in a table.
    pub decimals: usize,
    /// For a series, which value is shown.
    pub place: Place,
}

impl Claim {
    /// A number, or the last value of a series.
    pub const fn new(name: &'static str, unit: &'static str, decimals: usize) -> Self {
        Self {
            name,
            unit,
            decimals,
            place: Place::Last,
        }
    }

    /// The first value of a series.
    #[must_use]
    pub const fn first(mut self) -> Self {
        self.place = Place::First;
        self
    }
}

/// One measured number: everything the program says about it, wherever it appears.
///
/// In `name`, `unit` and `meaning`, `{path}` stands for another value of the same evaluation, `{path%}` for that value
/// as percent with one decimal, and `{1/path%}` for 100 divided by the length of that series. Of the texts in
/// `[one|another]`, the first whose values are all present is used, or nothing if there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    /// Its key in `metrics.jsonl`, in `state.json` and in compared numbers.
    pub key: &'static str,
    /// Its path in `evaluation.json`.
    pub path: &'static str,
    /// Its name in tables.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its meaning: a sentence without a full stop.
    pub meaning: &'static str,
    /// Whether larger or smaller is better.
    pub better: Better,
    /// Its format.
    pub format: Format,
    /// Its standard error, if it has one.
    pub spread: Option<Spread>,
    /// How it appears in comparisons.
    pub comparison: Comparison,
    /// Whether checkpoints keep it, for curves and to choose the best checkpoint.
    pub tracked: bool,
    /// Its name and format in the progress line of a training batch.
    pub progress: Option<(&'static str, Format)>,
    /// Its name and format in the line of a checkpoint.
    pub checkpoint: Option<(&'static str, Format)>,
    /// Whether a value that is not finite means that the model has diverged.
    pub must_be_finite: bool,
    /// How it is shown as evidence.
    pub claims: &'static [Claim],
}

impl Quantity {
    /// A number that only evaluations report, with about five digits.
    pub const fn new(key: &'static str, name: &'static str, unit: &'static str) -> Self {
        Self {
            key,
            path: key,
            name,
            unit,
            meaning: "",
            better: Better::Neither,
            format: Format::Digits,
            spread: None,
            comparison: Comparison::Left,
            tracked: false,
            progress: None,
            checkpoint: None,
            must_be_finite: false,
            claims: &[],
        }
    }

    /// Sets the meaning.
    #[must_use]
    pub const fn meaning(mut self, meaning: &'static str) -> Self {
        self.meaning = meaning;
        self
    }

    /// Sets the path in `evaluation.json`, if it is not the key.
    #[must_use]
    pub const fn at(mut self, path: &'static str) -> Self {
        self.path = path;
        self
    }

    /// Sets whether larger or smaller is better.
    #[must_use]
    pub const fn better(mut self, better: Better) -> Self {
        self.better = better;
        self
    }

    /// Sets the format.
    #[must_use]
    pub const fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Sets the standard error.
    #[must_use]
    pub const fn spread(mut self, path: &'static str, over: &'static str) -> Self {
        self.spread = Some(Spread { path, over });
        self
    }

    /// Adds a column to comparisons, with at most this many decimals.
    #[must_use]
    pub const fn column(mut self, decimals: usize) -> Self {
        self.comparison = Comparison::Column(decimals);
        self
    }

    /// Adds the number to comparisons, but not to their table.
    #[must_use]
    pub const fn compared(mut self) -> Self {
        self.comparison = Comparison::Numbers;
        self
    }

    /// Lets checkpoints keep it.
    #[must_use]
    pub const fn tracked(mut self) -> Self {
        self.tracked = true;
        self
    }

    /// Shows it for each batch during training.
    #[must_use]
    pub const fn progress(mut self, name: &'static str, format: Format) -> Self {
        self.progress = Some((name, format));
        self
    }

    /// Shows it at checkpoints.
    #[must_use]
    pub const fn checkpoint(mut self, name: &'static str, format: Format) -> Self {
        self.checkpoint = Some((name, format));
        self
    }

    /// Declares that the number is always finite unless the model has diverged.
    #[must_use]
    pub const fn finite(mut self) -> Self {
        self.must_be_finite = true;
        self
    }

    /// Adds the number to the evidence tables.
    #[must_use]
    pub const fn claims(mut self, claims: &'static [Claim]) -> Self {
        self.claims = claims;
        self
    }

    /// Whether this description covers the value at `path` of an evaluation: as its own number, as its standard error,
    /// or as a value that its name, unit or meaning shows.
    pub fn covers(&self, path: &str) -> bool {
        let shown = [
            format!("{{{path}}}"),
            format!("{{{path}%}}"),
            format!("{{1/{path}%}}"),
        ];
        let texts = [self.name, self.unit, self.meaning];
        self.path == path
            || self.spread.is_some_and(|spread| spread.path == path)
            || texts
                .iter()
                .any(|text| shown.iter().any(|shown| text.contains(shown.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_covers_what_it_shows() {
        let quantity = Quantity::new("accuracy", "accuracy {count}", "% of {of}")
            .at("digits.accuracy")
            .meaning("chance is {1/by_class%}%[, {unknown%}% unknown]")
            .spread("accuracy_stderr", "sequences");
        for path in [
            "digits.accuracy",
            "accuracy_stderr",
            "count",
            "of",
            "by_class",
            "unknown",
        ] {
            assert!(quantity.covers(path), "{path}");
        }
        for path in ["accuracy", "digits", "chance", "by", "sequences"] {
            assert!(!quantity.covers(path), "{path}");
        }
    }
}
