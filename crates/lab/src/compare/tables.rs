//! A comparison as a table: Markdown, CSV and LaTeX. Numbers have the names that `eval` gives them.

use super::{Comparison, ModelRow};
use mnemora_training::{
    Quantity,
    measures::{Comparison as Compared, filled},
};

impl Comparison {
    /// The rows as a Markdown table, without columns that are empty in all rows.
    pub fn table(&self) -> String {
        let cells = self.cells(|text| text.to_owned());
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = String::new();
        for (place, row) in cells.iter().enumerate() {
            text.push_str(&line(row));
            if place == 0 {
                text.push_str(&format!("|{}\n", " --- |".repeat(row.len())));
            }
        }
        text
    }

    /// The same as a LaTeX table, without its caption.
    pub fn latex(&self) -> String {
        let cells = self.cells(escaped_latex);
        let columns = cells.first().map_or(0, Vec::len);
        let mut text = format!(
            "\\begin{{tabular}}{{ll{}}}\n\\hline\n",
            "r".repeat(columns.max(2) - 2)
        );
        for (place, row) in cells.iter().enumerate() {
            text.push_str(&format!("{} \\\\\n", row.join(" & ")));
            if place == 0 || place + 1 == cells.len() {
                text.push_str("\\hline\n");
            }
        }
        text.push_str("\\end{tabular}\n");
        text
    }

    /// All compared numbers as measured, each followed by its standard error over seeds; empty where there is none.
    pub fn csv(&self) -> String {
        let present: Vec<&Quantity> = self.measured(|_| true);
        let mut heading: Vec<String> = FIXED.map(quoted).to_vec();
        for quantity in &present {
            let name = self.name(quantity);
            heading.push(quoted(&name));
            heading.push(quoted(&format!("{name}, standard error")));
        }
        let mut text = heading.join(",") + "\n";
        for row in &self.rows {
            let mut cells = vec![
                quoted(&row.model),
                quoted(&seeds(row, " ")),
                row.steps.to_string(),
                row.parameters.to_string(),
            ];
            for quantity in &present {
                let estimate = row.numbers.get(quantity.key);
                let number = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
                cells.push(number(estimate.map(|estimate| estimate.value)));
                cells.push(number(estimate.and_then(|estimate| estimate.stderr)));
            }
            text.push_str(&(cells.join(",") + "\n"));
        }
        text
    }

    /// The heading and the rows, their texts `escaped`.
    fn cells(&self, escaped: impl Fn(&str) -> String) -> Vec<Vec<String>> {
        let present = self.measured(|quantity| matches!(quantity.comparison, Compared::Column(_)));
        let names = present.iter().map(|quantity| escaped(&self.name(quantity)));
        let mut cells = vec![
            FIXED
                .iter()
                .map(|name| escaped(name))
                .chain(names)
                .collect(),
        ];
        for row in &self.rows {
            let numbers = present.iter().map(|quantity| {
                let value = row.numbers.get(quantity.key);
                let digits = match quantity.comparison {
                    Compared::Column(digits) => digits,
                    _ => 0,
                };
                value.map_or("-".to_owned(), |estimate| estimate.text(digits))
            });
            let fixed = [
                row.model.clone(),
                seeds(row, ", "),
                row.steps.to_string(),
                row.parameters.to_string(),
            ];
            let own = fixed.into_iter().chain(numbers);
            cells.push(own.map(|text| escaped(&text)).collect());
        }
        cells
    }

    /// The quantities that are measured in some row.
    fn measured(&self, wanted: impl Fn(&Quantity) -> bool) -> Vec<&'static Quantity> {
        let there = |key| self.rows.iter().any(|row| row.numbers.get(key).is_some());
        let all = self.quantities.iter();
        all.filter(|quantity| wanted(quantity) && there(quantity.key))
            .collect()
    }

    /// The name of a quantity, with the values of the first run.
    fn name(&self, quantity: &Quantity) -> String {
        let first = self
            .models
            .first()
            .and_then(|model| model.evaluations.first());
        first.map_or_else(
            || quantity.name.to_owned(),
            |row| filled(quantity.name, &row.measures),
        )
    }
}

/// The columns that every comparison has.
const FIXED: [&str; 4] = ["model", "seeds", "updates", "parameters"];

fn seeds(row: &ModelRow, between: &str) -> String {
    let seeds: Vec<String> = row.seeds.iter().map(u64::to_string).collect();
    seeds.join(between)
}

/// A field of a CSV file, in quotes where it needs them.
fn quoted(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// A text in which LaTeX sees no command.
fn escaped_latex(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', character]),
            '\\' => escaped.push_str("\\textbackslash{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '±' => escaped.push_str("$\\pm$"),
            '²' => escaped.push_str("$^2$"),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("KL, \"last\""), "\"KL, \"\"last\"\"\"");
    }

    #[test]
    fn latex_is_escaped() {
        assert_eq!(
            escaped_latex("a_b 5% R² 1 ± 2 \\x"),
            "a\\_b 5\\% R$^2$ 1 $\\pm$ 2 \\textbackslash{}x"
        );
    }
}
