//! Whether rows of an evidence file and runs measure the same, and the rows of both.

use super::{Claimed, Conditions, Line};
use crate::{LabError, compare::Estimate};
use serde_json::Value as Json;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// The row of the replicas of both rows, ordered by seed. What a row does not keep of each replica, the points of its curve,
/// follows from the mean and the standard error.
///
/// # Errors
/// If a seed is in both, or the replicas were not measured alike, or their commands set something else.
pub(super) fn joined(old: &Claimed, fresh: &Claimed) -> Result<Claimed, LabError> {
    let (one, other) = (&old.conditions, &fresh.conditions);
    let refused = |why: String| {
        let (setting, model) = (&one.setting, &one.model);
        LabError::Configuration(format!("{setting}, {model}: {why}; nothing was written"))
    };
    if let Some(seed) = one.seeds.iter().find(|seed| other.seeds.contains(seed)) {
        return Err(refused(format!("seed {seed} is there already")));
    }
    if one.data != other.data {
        let (one, other) = (&one.data, &other.data);
        return Err(refused(format!("data differ, {one} and {other}")));
    }
    for (what, old, fresh) in [
        ("updates", one.budget.steps, other.budget.steps),
        ("parameters", one.parameters as u64, other.parameters as u64),
        (
            "held-out sequences",
            one.budget.held_out_sequences.unwrap_or_default(),
            other.budget.held_out_sequences.unwrap_or_default(),
        ),
    ] {
        if old != fresh {
            return Err(refused(format!("{what} differ, {old} and {fresh}")));
        }
    }
    let both = [one, other].map(|of| settings(&without_seeds(of)));
    if let Some(key) = differing(&both) {
        let [old, fresh] = both.map(|settings| said(&settings, &key));
        return Err(refused(format!("{key} differs, {old} and {fresh}")));
    }
    let mut replicas = replicas(old)
        .chain(replicas(fresh))
        .collect::<Option<Vec<Replica>>>()
        .ok_or_else(|| refused("a row has not one value for each seed".to_owned()))?;
    replicas.sort_by_key(|replica| replica.seed);
    let values: Vec<f64> = replicas.iter().map(|replica| replica.value).collect();
    let seeds: Vec<u64> = replicas.iter().map(|replica| replica.seed).collect();
    let Estimate { value, stderr } = Estimate::of(&values);
    let mut conditions = Conditions {
        command: command(one, other, &seeds),
        commit: either(&one.commit, &other.commit, ", "),
        machine: either(&one.machine, &other.machine, " | "),
        seeds,
        ..other.clone()
    };
    conditions.budget.seconds = replicas.iter().map(|replica| replica.seconds).collect();
    let counts = [one.seeds.len(), other.seeds.len()];
    let curve = old.curve.iter().filter_map(|point| {
        let same = fresh.curve.iter().find(|(step, ..)| *step == point.0)?;
        let Estimate { value, stderr } =
            pooled([(counts[0], of_point(point)), (counts[1], of_point(same))]);
        Some((point.0, value, stderr))
    });
    Ok(Claimed {
        curve: curve.collect(),
        claim: fresh.claim.clone(),
        unit: fresh.unit.clone(),
        replicas: values,
        conditions,
        value,
        stderr,
    })
}

/// Checks that the joined rows have every number that the file has of their settings and models.
///
/// # Errors
/// If one is missing.
pub(super) fn refuse_losses(rows: &[Line], joined: &[Claimed]) -> Result<(), LabError> {
    for (_, row) in rows {
        let text = |key| row.get(key).and_then(Json::as_str).unwrap_or_default();
        let (setting, model, claim) = (text("setting"), text("model"), text("claim"));
        let mut own = joined.iter().filter(|row| {
            let of = &row.conditions;
            (of.setting.as_str(), of.model.as_str()) == (setting, model)
        });
        if own.clone().next().is_some() && !own.any(|row| row.claim == claim) {
            return Err(LabError::Configuration(format!(
                "{setting}, {model}: the runs have no '{claim}', but the file has; nothing was written"
            )));
        }
    }
    Ok(())
}

/// Checks that the runs measure what the rows of their setting and model in the file `target` do.
///
/// # Errors
/// If they have other updates, or their commands set something else.
pub(super) fn refuse_other_settings(
    target: &Path,
    rows: &[Line],
    fresh: &[Claimed],
) -> Result<(), LabError> {
    for (_, row) in rows {
        let text = |key| row.get(key).and_then(Json::as_str).unwrap_or_default();
        let (setting, model) = (text("setting"), text("model"));
        let mut of_runs = fresh.iter().map(|row| &row.conditions);
        let is_own =
            |of: &&Conditions| (of.setting.as_str(), of.model.as_str()) == (setting, model);
        let Some(new) = of_runs.find(is_own) else {
            continue;
        };
        let steps = row
            .get("budget")
            .and_then(|budget| budget["steps"].as_u64());
        let both = [text("command"), &new.command].map(settings);
        let difference = match differing(&both) {
            None => match steps {
                Some(steps) if steps != new.budget.steps => {
                    format!("{steps} updates, the runs have {}", new.budget.steps)
                }
                _ => continue,
            },
            Some(key) => {
                let [old, new] = both.map(|settings| said(&settings, &key));
                format!("{key} {old}, the runs have {new}")
            }
        };
        return Err(LabError::Configuration(format!(
            "{setting}, {model}: rows of {} have {difference}; nothing was written; to put the runs in their place, add \
             --replace",
            target.display()
        )));
    }
    Ok(())
}

struct Replica {
    seed: u64,
    value: f64,
    seconds: u64,
}

/// `None` for a row that has not one value for each seed.
fn replicas(row: &Claimed) -> impl Iterator<Item = Option<Replica>> + '_ {
    let of = &row.conditions;
    let (values, seconds) = (&row.replicas, &of.budget.seconds);
    let alike = values.len() == of.seeds.len() && seconds.len() == of.seeds.len();
    of.seeds.iter().enumerate().map(move |(place, seed)| {
        alike.then(|| Replica {
            seed: *seed,
            value: values[place],
            seconds: seconds[place],
        })
    })
}

/// Both commands, once if they differ in their seeds only.
fn command(one: &Conditions, other: &Conditions, seeds: &[u64]) -> String {
    let command = either(&without_seeds(one), &without_seeds(other), " | ");
    format!("{command}, seeds {seeds:?}")
}

fn without_seeds(of: &Conditions) -> String {
    let end = format!(", seeds {:?}", of.seeds);
    let command = of.command.strip_suffix(&end);
    command.unwrap_or(&of.command).to_owned()
}

/// The values that a command sets, one set for each of its alternatives. The number of updates is compared by itself.
type Settings = BTreeSet<BTreeMap<String, String>>;

fn settings(command: &str) -> Settings {
    let of_one = |command: &str| {
        let mut set = BTreeMap::new();
        let mut words = command.split(' ').map(|word| word.trim_end_matches(','));
        while let Some(word) = words.next() {
            let value = match word {
                "--set" => words.next().and_then(|value| value.split_once('=')),
                "--memory" => words.next().map(|memory| ("model.memory", memory)),
                _ => None,
            };
            // A later value takes the place of an earlier one.
            set.extend(value.map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
        set.remove("training.steps");
        set
    };
    command.split(" | ").map(of_one).collect()
}

/// A key that not all of the sets give the same value.
fn differing(both: &[Settings; 2]) -> Option<String> {
    let all = || both.iter().flatten();
    let keys: BTreeSet<&String> = all().flat_map(BTreeMap::keys).collect();
    let values = |key: &String| all().map(|set| set.get(key)).collect::<BTreeSet<_>>();
    let found = keys.into_iter().find(|key| values(key).len() > 1);
    found.cloned()
}

/// The values of a key in words.
fn said(settings: &Settings, key: &str) -> String {
    let values = settings.iter().map(|set| match set.get(key) {
        Some(value) => value.as_str(),
        None => "not set",
    });
    let values: BTreeSet<&str> = values.collect();
    Vec::from_iter(values).join(" or ")
}

/// What both say, each of their parts once.
fn either(one: &str, other: &str, between: &str) -> String {
    let parts: BTreeSet<&str> = one.split(between).chain(other.split(between)).collect();
    let parts: Vec<&str> = parts.into_iter().collect();
    parts.join(between)
}

fn of_point((_, value, stderr): &(u64, f64, Option<f64>)) -> Estimate {
    Estimate {
        value: *value,
        stderr: *stderr,
    }
}

/// The mean of all numbers of groups and its standard error, from those of each group and its count.
fn pooled(groups: [(usize, Estimate); 2]) -> Estimate {
    let all: f64 = groups.iter().map(|(count, _)| *count as f64).sum();
    let sum = |of: &dyn Fn(f64, &Estimate) -> f64| -> f64 {
        let of_group = |(count, group): &(usize, Estimate)| of(*count as f64, group);
        groups.iter().map(of_group).sum()
    };
    let value = sum(&|count, group| count * group.value) / all;
    // Squares within each group, by the definition of its standard error, and between them.
    let squares = sum(&|count, group| {
        let within = group.stderr.unwrap_or(0.0).powi(2) * count * (count - 1.0);
        within + count * (group.value - value).powi(2)
    });
    Estimate {
        value,
        stderr: Some((squares / (all - 1.0) / all).sqrt()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_different_settings_are_told_apart() {
        let found = |one: &str, other: &str| {
            let both = [one, other].map(settings);
            let key = differing(&both)?;
            let [one, other] = both.map(|settings| said(&settings, &key));
            Some(format!("{key}: {one}, {other}"))
        };
        let plain = "mnemora train a --memory dnc";
        let resumed = "mnemora train a --set model.memory=dnc --weights x|y --set training.steps=2, resumed after 2 \
                       updates with --set training.steps=4 --set x=1";
        assert_eq!(found(plain, "mnemora train a --set model.memory=dnc"), None);
        assert_eq!(found(plain, resumed), Some("x: not set, 1".to_owned()));
        assert_eq!(
            found(resumed, "mnemora train a --memory dnc --set x=3 --set x=1"),
            None
        );
        assert_eq!(
            found(
                &format!("{plain} --set x=1 | {resumed}"),
                &format!("{plain} --set x=2")
            ),
            Some("x: 1, 2".to_owned())
        );
    }

    #[test]
    fn groups_are_pooled_as_if_all_numbers_were_known() {
        let numbers = [3.0, -1.0, 4.5, 2.0, 7.0];
        for first in 1..numbers.len() {
            let (one, other) = numbers.split_at(first);
            let all = Estimate::of(&numbers);
            let groups = [one, other].map(|group| (group.len(), Estimate::of(group)));
            let pooled = pooled(groups);
            assert!((pooled.value - all.value).abs() < 1e-12);
            let [found, expected] = [pooled, all].map(|all| all.stderr.expect("several numbers"));
            assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
        }
    }
}
