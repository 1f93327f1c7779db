//! What is asked of a scene: which views are seen, and which are asked for.

use crate::answered::Place;
use mnemora_worlds::scenes::{Scene, Scenes};

/// The most queries of one question.
const MOST: usize = 1000;
/// Steps of a walk around a scene, if a question does not say.
pub const AROUND: usize = 24;

/// The views of a scene as questions name them.
pub struct Asked<'a> {
    scenes: &'a dyn Scenes,
    scene: &'a dyn Scene,
}

impl<'a> Asked<'a> {
    /// Of one scene of a world.
    pub fn new(scenes: &'a dyn Scenes, scene: &'a dyn Scene) -> Self {
        Self { scenes, scene }
    }

    /// The scene.
    pub fn scene(&self) -> &'a dyn Scene {
        self.scene
    }

    /// What a view is called: frames are views of stories.
    pub fn word(&self) -> &'static str {
        match self.scenes.ordered() {
            true => "frame",
            false => "view",
        }
    }

    /// The numbers that a question may name.
    fn range(&self) -> String {
        format!(
            "{} has {}s 1 to {}",
            self.scenes.name(),
            self.word(),
            self.scene.views()
        )
    }

    /// A view by its number from 0.
    pub fn place(&self, view: usize) -> Place {
        let mut query = vec![0.0; self.scenes.query_width()];
        self.scene.query(view, &mut query);
        Place {
            name: (view + 1).to_string(),
            view: Some(view),
            query,
        }
    }

    /// A moment of a story, by the number of its frame from 1.
    fn between(&self, name: &str, number: f64) -> Place {
        let before = number.floor();
        let share = (number - before) as f32;
        let [from, to] = [before as usize - 1, before as usize].map(|view| self.place(view).query);
        let query = from
            .iter()
            .zip(&to)
            .map(|(from, to)| from + share * (to - from));
        Place {
            name: name.to_owned(),
            view: None,
            query: query.collect(),
        }
    }

    /// The views from 0 that `--context` names: `1,2,12`, `1-6`, or `none`.
    ///
    /// # Errors
    /// A description of what is wrong, if something is.
    pub fn context(&self, words: &str) -> Result<Vec<usize>, String> {
        let mut views = Vec::new();
        if words.trim() == "none" {
            return Ok(views);
        }
        for item in items(words, "--context", "or none")? {
            for number in self.whole(&item, "--context")? {
                if views.contains(&(number - 1)) {
                    return Err(format!("--context names {} {number} twice", self.word()));
                }
                views.push(number - 1);
            }
        }
        Ok(views)
    }

    /// The places that `--at` names: `3,5.5`, `1-20`, `all`, `around` or `around:36`.
    ///
    /// # Errors
    /// A description of what is wrong, if something is.
    pub fn places(&self, words: &str) -> Result<Vec<Place>, String> {
        let words = words.trim();
        let count = self.scene.views();
        let places: Vec<Place> = if words == "all" {
            (0..count.min(MOST + 1))
                .map(|view| self.place(view))
                .collect()
        } else if let Some(steps) = words.strip_prefix("around") {
            let views = self.around(steps)?;
            views.into_iter().map(|view| self.place(view)).collect()
        } else {
            let mut places = Vec::new();
            let others = match self.scenes.around() {
                true => "all or around",
                false => "or all",
            };
            for item in items(words, "--at", others)? {
                match item {
                    Item::Between(number, name) => places.push(self.moment(&name, number)?),
                    whole => {
                        let numbers = self.whole(&whole, "--at")?;
                        places.extend(numbers.map(|number| self.place(number - 1)));
                    }
                }
                if places.len() > MOST {
                    break;
                }
            }
            places
        };
        match places.len() > MOST {
            true => Err(format!("--at asks for more than {MOST} {}s", self.word())),
            false => Ok(places),
        }
    }

    fn moment(&self, name: &str, number: f64) -> Result<Place, String> {
        if !self.scenes.ordered() {
            return Err(format!(
                "--at names {name}, but only stories have moments between their frames; {}",
                self.range()
            ));
        }
        match number >= 1.0 && number < self.scene.views() as f64 {
            true => Ok(self.between(name, number)),
            false => Err(format!("--at names frame {name}, but {}", self.range())),
        }
    }

    /// The numbers of an item, all of which are views.
    fn whole(&self, item: &Item, option: &str) -> Result<std::ops::RangeInclusive<usize>, String> {
        let (first, last) = match item {
            Item::Whole(first, last) => (*first, *last),
            Item::Between(_, name) => {
                return Err(format!(
                    "{option} names {name}, but what was seen is a whole {}; {}",
                    self.word(),
                    self.range()
                ));
            }
        };
        let outside = [first, last]
            .into_iter()
            .find(|number| !(1..=self.scene.views()).contains(number));
        match outside {
            None => Ok(first..=last),
            Some(number) => Err(format!(
                "{option} names {} {number}, but {}",
                self.word(),
                self.range()
            )),
        }
    }

    /// The views of a walk around; `steps` is what follows the word.
    fn around(&self, steps: &str) -> Result<Vec<usize>, String> {
        let views = self.scene.views();
        if !self.scenes.around() {
            return Err(format!(
                "--at around: there is no way around the scenes of {}; name {}s 1 to {views}, or all",
                self.scenes.name(),
                self.word()
            ));
        }
        let count = match steps.strip_prefix(':') {
            None if steps.is_empty() => Some(AROUND.min(views)),
            None => None,
            Some(steps) => steps.parse().ok(),
        };
        let most = views.min(MOST);
        match count.filter(|count| (1..=most).contains(count)) {
            Some(count) => Ok((0..count).map(|step| step * views / count).collect()),
            None => Err(format!(
                "--at around{steps}: write around, or around:N with N from 1 to {most} steps"
            )),
        }
    }
}

/// A part of a list.
enum Item {
    /// From one number to another.
    Whole(usize, usize),
    /// A number that is not whole, with its words.
    Between(f64, String),
}

/// The parts of a list.
fn items(words: &str, option: &str, others: &str) -> Result<Vec<Item>, String> {
    let wrong = |item: &str| {
        format!(
            "{option} has '{item}', which is neither a number nor a range; write numbers such as 1,2,12, ranges such \
             as 1-6, {others}"
        )
    };
    let item = |item: &str| {
        let item = item.trim();
        if let Some((first, last)) = item.split_once('-') {
            let ends = first.trim().parse().ok().zip(last.trim().parse().ok());
            let (first, last): (usize, usize) = ends.ok_or_else(|| wrong(item))?;
            return match first <= last {
                true => Ok(Item::Whole(first, last)),
                false => Err(format!(
                    "{option} has the range {item}, which falls; write {last}-{first}"
                )),
            };
        }
        if let Ok(number) = item.parse() {
            return Ok(Item::Whole(number, number));
        }
        let number: Option<f64> = item.parse().ok().filter(|number: &f64| number.is_finite());
        match number {
            Some(number) if number.fract() == 0.0 && (0.0..1e9).contains(&number) => {
                Ok(Item::Whole(number as usize, number as usize))
            }
            Some(number) => Ok(Item::Between(number, item.to_owned())),
            None => Err(wrong(item)),
        }
    };
    words.split(',').map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mnemora_worlds::{
        Mnist, Split, Stream,
        scenes::{Narratives, Prism},
    };

    /// Asks a scene of a world.
    fn asked<T>(scenes: &dyn Scenes, question: impl FnOnce(&Asked) -> T) -> T {
        let scene = scenes.scene(Split::Test, &Stream::new(1, "scenes"), 0);
        question(&Asked::new(scenes, scene.as_ref()))
    }

    fn story() -> Narratives {
        Narratives::colour_reaction(16).unwrap()
    }

    fn prism() -> Prism {
        Prism::new(&Mnist::bundled().unwrap(), 16, 144).unwrap()
    }

    #[test]
    fn contexts_are_numbers_and_ranges() {
        asked(&story(), |asked| {
            assert_eq!(asked.context("1,2,12").unwrap(), [0, 1, 11]);
            assert_eq!(asked.context(" 9, 1-3 ").unwrap(), [8, 0, 1, 2]);
            assert_eq!(asked.context("none").unwrap(), [0; 0]);
            for (words, said) in [
                (
                    "1,13",
                    "--context names frame 13, but colour-reaction has frames 1 to 12",
                ),
                ("0-3", "names frame 0"),
                ("3,2-4", "names frame 3 twice"),
                ("4-2", "falls; write 2-4"),
                ("1.5", "whole frame"),
                ("", "''"),
                ("1,,2", "''"),
                ("some", "'some'"),
                ("-1", "'-1'"),
            ] {
                let problem = asked.context(words).unwrap_err();
                assert!(problem.contains(said), "{words}: {problem}");
            }
        });
    }

    #[test]
    fn a_story_is_asked_for_any_moment() {
        asked(&story(), |asked| {
            let all = asked.places("all").unwrap();
            assert_eq!(all.len(), 12);
            assert_eq!((all[11].name.as_str(), all[11].view), ("12", Some(11)));
            assert_eq!(all[11].query, [1.0]);
            let found = asked.places("3,5.5,7-8").unwrap();
            let names: Vec<_> = found.iter().map(|place| place.name.as_str()).collect();
            assert_eq!(names, ["3", "5.5", "7", "8"]);
            assert_eq!(found[1].view, None);
            assert!((found[1].query[0] - 5.5 / 12.0).abs() < 1e-6);
            assert_eq!(asked.places("4.0").unwrap(), [asked.place(3)]);
            for (words, said) in [
                (
                    "13",
                    "--at names frame 13, but colour-reaction has frames 1 to 12",
                ),
                ("12.5", "frame 12.5"),
                ("0.5", "frame 0.5"),
                ("nan", "'nan'"),
                ("around", "no way around the scenes of colour-reaction"),
                ("1-12,1e99", "frame 1e99"),
            ] {
                let problem = asked.places(words).unwrap_err();
                assert!(problem.contains(said), "{words}: {problem}");
            }
            let many = vec!["1-12"; 84].join(",");
            let problem = asked.places(&many).unwrap_err();
            assert_eq!(problem, "--at asks for more than 1000 frames");
        });
    }

    #[test]
    fn a_walk_goes_around_once() {
        asked(&prism(), |asked| {
            let walk = asked.places("around:36").unwrap();
            let views: Vec<_> = walk.iter().filter_map(|place| place.view).collect();
            assert_eq!(views, (0..36).map(|step| 4 * step).collect::<Vec<_>>());
            assert_eq!(asked.places("around").unwrap().len(), AROUND);
            for (words, said) in [
                ("around:0", "with N from 1 to 144 steps"),
                ("around:145", "with N from 1 to 144 steps"),
                ("around 5", "around:N"),
                (
                    "2.5",
                    "only stories have moments between their frames; prism has views 1 to 144",
                ),
            ] {
                let problem = asked.places(words).unwrap_err();
                assert!(problem.contains(said), "{words}: {problem}");
            }
        });
    }
}
