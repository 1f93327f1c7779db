//! Measured numbers as Markdown tables.

use super::claims;
use crate::{MemoryName, ModelName, families};
use serde_json::{Map, Value as Json};

/// One table per setting, without columns that no model of the setting has.
pub(super) fn tables(rows: &[Map<String, Json>]) -> String {
    let text = |row: &Map<String, Json>, key: &str| {
        row.get(key)
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut settings: Vec<String> = Vec::new();
    for row in rows {
        let setting = text(row, "setting");
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    // Every family's claims with their decimals, in the order of its quantities. A claim that fills values into its name
    // has a column for each name.
    let mut columns: Vec<(String, usize)> = Vec::new();
    for family in families() {
        for (_, claim) in claims(family.quantities()) {
            let names = match claim.name.split_once('{') {
                None => vec![claim.name.to_owned()],
                Some((start, _)) => {
                    let names = rows.iter().map(|row| text(row, "claim"));
                    names.filter(|name| name.starts_with(start)).collect()
                }
            };
            for name in names {
                if !columns.iter().any(|(column, _)| *column == name) {
                    columns.push((name, claim.decimals));
                }
            }
        }
    }
    let mut out = String::new();
    for setting in settings {
        let here: Vec<&Map<String, Json>> = rows
            .iter()
            .filter(|row| text(row, "setting") == setting)
            .collect();
        let present: Vec<&(String, usize)> = columns
            .iter()
            .filter(|(name, _)| here.iter().any(|row| text(row, "claim") == *name))
            .collect();
        let mut models: Vec<String> = here.iter().map(|row| text(row, "model")).collect();
        models.sort_by_key(|label| (place(label), label.clone()));
        models.dedup();
        let names: Vec<&str> = present.iter().map(|(name, _)| name.as_str()).collect();
        out.push_str(&format!(
            "\n### {setting}\n\n| model | parameters | seeds | updates | {} |\n{}|\n",
            names.join(" | "),
            "| --- ".repeat(4 + names.len())
        ));
        for model in models {
            let of_model = |claim: Option<&str>| {
                let mut rows = here.iter();
                rows.find(|row| {
                    text(row, "model") == model
                        && claim.is_none_or(|claim| text(row, "claim") == claim)
                })
            };
            let Some(any) = of_model(None) else { continue };
            let count =
                |value: &Json| mnemora_figures::number(value.as_f64().unwrap_or(f64::NAN), 15);
            let seeds = any.get("seeds").and_then(Json::as_array);
            let seeds: Vec<String> = seeds.into_iter().flatten().map(Json::to_string).collect();
            let mut cells = vec![
                model.clone(),
                any.get("parameters").map(count).unwrap_or_default(),
                seeds.join(", "),
                any.get("budget")
                    .map(|budget| count(&budget["steps"]))
                    .unwrap_or_default(),
            ];
            cells.extend(present.iter().map(|(name, decimals)| {
                let row = of_model(Some(name));
                let number = |key| row?.get(key)?.as_f64();
                match (number("value"), number("stderr")) {
                    (None, _) => "-".to_owned(),
                    (Some(value), None) => format!("{value:.decimals$}"),
                    (Some(value), Some(stderr)) => {
                        format!("{value:.decimals$} ± {stderr:.decimals$}")
                    }
                }
            }));
            out.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
    }
    out
}

/// The position of a model in a table.
fn place(label: &str) -> usize {
    let memories = MemoryName::ALL.iter().map(|name| name.as_str());
    let models = ModelName::ALL.iter().map(|name| name.as_str());
    let mut names = memories.chain(models);
    let is_of = |name: &str| label == name || label.starts_with(&format!("{name}-"));
    names.position(is_of).unwrap_or(usize::MAX)
}
