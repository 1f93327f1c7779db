//! Times of steps, and those that follow them.

use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveDateTime, TimeDelta, Timelike};
use std::f64::consts::TAU;

/// When the steps of a sequence were.
#[derive(Clone, Debug, PartialEq)]
pub enum Clock {
    /// Nothing is known but their order; so many.
    Order(usize),
    /// Numbers.
    Numbers(Vec<f64>),
    /// Dates.
    Dates(Vec<NaiveDateTime>),
}

/// The distance of the steps of a regular clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// One after the other.
    Order,
    /// A number.
    Number(f64),
    /// A time.
    Time(TimeDelta),
    /// Months of any length.
    Months(u32),
}

/// Formats of dates and of dates with times, tried in this order.
const DATES: [&str; 5] = ["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%Y%m%d", "%Y-%m"];
const DATE_TIMES: [&str; 6] = [
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y/%m/%d %H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y/%m/%d %H:%M",
];
/// Days of a year.
const YEAR: f64 = 365.25;
/// How many times as fast as a cycle of the calendar.
const HARMONICS: [f64; 3] = [1.0, 2.0, 3.0];
/// Relative difference up to which two distances of numbers are the same.
const SAME: f64 = 1e-6;

/// A date in one of the formats of ISO 8601, with slashes, or with the day first and dots.
pub(super) fn date(text: &str) -> Option<NaiveDateTime> {
    if let Ok(zoned) = DateTime::parse_from_rfc3339(text) {
        return Some(zoned.naive_utc());
    }
    let text = text.strip_suffix('Z').unwrap_or(text);
    let timed = DATE_TIMES.iter();
    if let Some(found) =
        { timed }.find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
    {
        return Some(found);
    }
    // Eight digits may be a number.
    let marked = text.contains(['-', '/']) || text.matches('.').count() == 2;
    let plain = text.len() >= 7 && (marked || text.len() == 8);
    let mut formats = DATES.iter().filter(|_| plain);
    let day = formats.find_map(|format| match *format {
        "%Y-%m" => NaiveDate::parse_from_str(&format!("{text}-01"), "%Y-%m-%d").ok(),
        format => NaiveDate::parse_from_str(text, format).ok(),
    });
    day.and_then(|day| day.and_hms_opt(0, 0, 0))
}

/// Whether a date has an offset from UTC.
pub(super) fn has_offset(text: &str) -> bool {
    let zoned = DateTime::parse_from_rfc3339(text);
    zoned.is_ok_and(|zoned| zoned.offset().local_minus_utc() != 0)
}

impl Clock {
    /// The number of steps.
    pub fn steps(&self) -> usize {
        match self {
            Self::Order(steps) => *steps,
            Self::Numbers(times) => times.len(),
            Self::Dates(times) => times.len(),
        }
    }

    /// Whether its times are dates.
    pub fn has_dates(&self) -> bool {
        matches!(self, Self::Dates(_))
    }

    /// A step's time as text; its number, from 1, if there are no times.
    pub fn text(&self, step: usize) -> String {
        match self {
            Self::Order(_) => (step + 1).to_string(),
            Self::Numbers(times) => times[step].to_string(),
            Self::Dates(times) => shown(times[step]),
        }
    }

    /// All that tells two clocks apart.
    pub(super) fn identity(&self) -> String {
        let first = |step| match self.steps() {
            0 => String::new(),
            _ => self.text(step),
        };
        format!(
            "{} steps, {} to {}",
            self.steps(),
            first(0),
            first(self.steps().saturating_sub(1))
        )
    }

    /// The most frequent distance of two steps, if most have it; `None` for a clock without a pace.
    pub fn pace(&self) -> Option<Pace> {
        match self {
            Self::Order(_) => Some(Pace::Order),
            Self::Numbers(times) => {
                let mut apart: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
                apart.sort_by(f64::total_cmp);
                let middle = *apart.get(apart.len() / 2)?;
                let same = apart
                    .iter()
                    .filter(|distance| (*distance - middle).abs() <= SAME * middle.abs());
                (2 * same.count() > apart.len()).then_some(Pace::Number(middle))
            }
            Self::Dates(times) => {
                let mut apart: Vec<TimeDelta> =
                    times.windows(2).map(|pair| pair[1] - pair[0]).collect();
                apart.sort();
                let middle = *apart.get(apart.len() / 2)?;
                let same = apart.iter().filter(|distance| **distance == middle);
                if 2 * same.count() > apart.len() && middle.num_days() < 28 {
                    return Some(Pace::Time(middle));
                }
                months(times).map(Pace::Months)
            }
        }
    }

    /// The same clock without its last steps, so that `steps` are left.
    pub fn first(&self, steps: usize) -> Self {
        match self {
            Self::Order(all) => Self::Order(steps.min(*all)),
            Self::Numbers(times) => Self::Numbers(times[..steps.min(times.len())].to_vec()),
            Self::Dates(times) => Self::Dates(times[..steps.min(times.len())].to_vec()),
        }
    }

    /// The same clock without its first steps.
    pub fn after(&self, steps: usize) -> Self {
        match self {
            Self::Order(all) => Self::Order(all.saturating_sub(steps)),
            Self::Numbers(times) => Self::Numbers(times[steps.min(times.len())..].to_vec()),
            Self::Dates(times) => Self::Dates(times[steps.min(times.len())..].to_vec()),
        }
    }

    /// How many of its first steps do not come after the last step of another clock; 0 if steps are only counted.
    ///
    /// # Errors
    /// As text: one has dates and the other does not.
    pub fn not_after(&self, other: &Self) -> Result<usize, String> {
        match (self, other) {
            (Self::Order(_), Self::Order(_)) => Ok(0),
            (Self::Numbers(times), Self::Numbers(others)) => {
                let last = others.last().copied().unwrap_or(f64::NEG_INFINITY);
                Ok(times.partition_point(|time| *time <= last))
            }
            (Self::Dates(times), Self::Dates(others)) => {
                let last = others.last();
                Ok(times.partition_point(|time| last.is_some_and(|last| time <= last)))
            }
            _ => Err(self.unlike(other)),
        }
    }

    /// That the times of two clocks are of different kinds.
    fn unlike(&self, other: &Self) -> String {
        let kind = |clock: &Self| match clock {
            Self::Order(_) => "none",
            Self::Numbers(_) => "numbers",
            Self::Dates(_) => "dates",
        };
        format!("its times are {}, not {}", kind(self), kind(other))
    }

    /// The steps missing at this clock's pace between its last step and another clock, all of whose steps come later; and
    /// this clock with the missing steps and the other's.
    ///
    /// # Errors
    /// As text: one has dates and the other does not.
    pub fn followed_by(&self, next: &Self) -> Result<(usize, Self), String> {
        let pace = self.pace();
        let both = |own: &Self| match (own, next) {
            (Self::Order(one), Self::Order(other)) => Ok(Self::Order(one + other)),
            (Self::Numbers(one), Self::Numbers(other)) => {
                Ok(Self::Numbers([one.as_slice(), other].concat()))
            }
            (Self::Dates(one), Self::Dates(other)) => {
                Ok(Self::Dates([one.as_slice(), other].concat()))
            }
            (one, other) => Err(other.unlike(one)),
        };
        let joined = both(self)?;
        let steps = self.steps();
        let apart = match pace.filter(|_| steps > 0 && next.steps() > 0) {
            Some(pace) => joined.nearest_steps_since(steps, pace),
            None => 1,
        };
        let missing = apart - 1;
        let filled = self.clone().paced(pace, steps + missing);
        match filled.filter(|_| missing > 0) {
            Some(filled) => Ok((missing, both(&filled)?)),
            None => Ok((0, joined)),
        }
    }

    /// This clock and the `more` steps that follow at its pace; `None` if it has none.
    pub fn continued(&self, more: usize) -> Option<Self> {
        self.clone().paced(self.pace(), self.steps() + more)
    }

    /// This clock, continued at a pace to so many steps.
    pub(super) fn paced(self, pace: Option<Pace>, steps: usize) -> Option<Self> {
        let pace = pace?;
        let mut next = self;
        while next.steps() < steps {
            match (&mut next, pace) {
                (Self::Order(steps), _) => *steps += 1,
                (Self::Numbers(times), Pace::Number(apart)) => {
                    times.push(times.last()? + apart);
                }
                (Self::Dates(times), pace) => times.push(after(*times.last()?, pace, 1)?),
                _ => return None,
            }
        }
        Some(next)
    }

    /// As [`steps_since`](Self::steps_since), to the nearest whole number, at least 1.
    pub(super) fn nearest_steps_since(&self, step: usize, pace: Pace) -> usize {
        let exact = self.steps_since(step, pace);
        let apart = match (self, pace) {
            (Self::Numbers(times), Pace::Number(apart)) => (times[step] - times[step - 1]) / apart,
            (Self::Dates(times), Pace::Time(apart)) => {
                let between = times[step] - times[step - 1];
                between.num_milliseconds() as f64 / apart.num_milliseconds() as f64
            }
            (Self::Dates(times), Pace::Months(months)) => {
                let days = (times[step] - times[step - 1]).num_days() as f64;
                days / (YEAR / 12.0 * f64::from(months))
            }
            _ => 1.0,
        };
        exact.unwrap_or((apart.round() as usize).max(1))
    }

    /// How many steps of a pace lie between step `step` and the one before: 1 without a gap; `None` if it is no whole
    /// number.
    pub(super) fn steps_since(&self, step: usize, pace: Pace) -> Option<usize> {
        match (self, pace) {
            (Self::Order(_), _) => Some(1),
            (Self::Numbers(times), Pace::Number(apart)) => {
                let steps = (times[step] - times[step - 1]) / apart;
                let whole = steps.round();
                ((steps - whole).abs() < 1e-3 && whole >= 1.0).then_some(whole as usize)
            }
            (Self::Dates(times), pace) => {
                let (before, now) = (times[step - 1], times[step]);
                let guess = match pace {
                    Pace::Months(months) => {
                        let months = f64::from(months);
                        (month_number(now) - month_number(before)) as f64 / months
                    }
                    Pace::Time(apart) => {
                        (now - before).num_milliseconds() as f64 / apart.num_milliseconds() as f64
                    }
                    _ => return None,
                };
                let whole = guess.round() as usize;
                (whole >= 1 && after(before, pace, whole) == Some(now)).then_some(whole)
            }
            _ => None,
        }
    }

    /// The cycles of the calendar in days, the day, the week and the year, and those twice and three times as fast: those
    /// that are at least two steps long at this clock's pace, and of which the first `steps` steps hold at least two. None
    /// without dates.
    pub fn calendar(&self, steps: usize) -> Vec<f64> {
        let apart = match (self, self.pace()) {
            (Self::Dates(_), Some(Pace::Time(apart))) => apart.num_milliseconds() as f64 / 86.4e6,
            (Self::Dates(_), Some(Pace::Months(months))) => f64::from(months) * YEAR / 12.0,
            _ => return Vec::new(),
        };
        let seen = apart * steps as f64;
        [1.0, 7.0, YEAR]
            .into_iter()
            .filter(|cycle| 2.0 * cycle <= seen)
            .flat_map(|cycle| HARMONICS.map(|times| cycle / times))
            .filter(|cycle| *cycle >= 2.0 * apart)
            .collect()
    }

    /// Sines and cosines of the places of a step in cycles of the calendar, in days; zeros without dates.
    pub fn seasons(&self, step: usize, cycles: &[f64]) -> Vec<f64> {
        let Self::Dates(times) = self else {
            return vec![0.0; 2 * cycles.len()];
        };
        // A Monday, at the beginning of a year.
        let origin = NaiveDate::from_ymd_opt(2001, 1, 1).and_then(|day| day.and_hms_opt(0, 0, 0));
        let since = origin.map_or(0.0, |origin| {
            (times[step] - origin).num_milliseconds() as f64 / 86.4e6
        });
        let turns = cycles.iter().map(|cycle| TAU * since / cycle);
        turns.flat_map(|turn| [turn.sin(), turn.cos()]).collect()
    }

    /// Steps of the cycles of the calendar, the longest first: a year of months, a day of hours. Those longer than `most` are
    /// left out.
    pub fn cycles(&self, most: usize) -> Vec<usize> {
        let steps: Vec<f64> = match (self, self.pace()) {
            (Self::Dates(_), Some(Pace::Months(months))) => vec![12.0 / f64::from(months)],
            (Self::Dates(_), Some(Pace::Time(apart))) => {
                let hours = apart.num_milliseconds() as f64 / 3.6e6;
                vec![365.25 * 24.0 / hours, 7.0 * 24.0 / hours, 24.0 / hours]
            }
            _ => Vec::new(),
        };
        let whole = steps.into_iter().map(|steps| steps.round() as usize);
        whole.filter(|steps| (2..=most).contains(steps)).collect()
    }
}

/// A date, with its time of the day unless it is midnight.
fn shown(time: NaiveDateTime) -> String {
    match time.num_seconds_from_midnight() {
        0 => time.format("%Y-%m-%d").to_string(),
        seconds if seconds % 60 == 0 => time.format("%Y-%m-%d %H:%M").to_string(),
        _ => time.format("%Y-%m-%d %H:%M:%S%.f").to_string(),
    }
}

/// Months since the beginning of the calendar.
fn month_number(time: NaiveDateTime) -> i64 {
    i64::from(time.year()) * 12 + i64::from(time.month0())
}

/// The time so many steps later.
pub(super) fn after(time: NaiveDateTime, pace: Pace, steps: usize) -> Option<NaiveDateTime> {
    match pace {
        Pace::Months(months) => {
            let total = months.checked_mul(u32::try_from(steps).ok()?)?;
            let next = time.checked_add_months(Months::new(total))?;
            // The end of a month stays the end of a month.
            let last = time.checked_add_signed(TimeDelta::days(1))?.day() == 1;
            match last {
                true => next
                    .with_day(1)?
                    .checked_add_months(Months::new(1))?
                    .checked_sub_signed(TimeDelta::days(1)),
                false => Some(next),
            }
        }
        Pace::Time(apart) => time.checked_add_signed(apart * i32::try_from(steps).ok()?),
        _ => None,
    }
}

/// The number of months between most steps, if that is the same.
fn months(times: &[NaiveDateTime]) -> Option<u32> {
    let mut apart: Vec<i64> = times
        .windows(2)
        .map(|pair| month_number(pair[1]) - month_number(pair[0]))
        .collect();
    apart.sort_unstable();
    let middle = *apart.get(apart.len() / 2)?;
    let regular = times
        .windows(2)
        .filter(|pair| after(pair[0], Pace::Months(middle.max(1) as u32), 1) == Some(pair[1]))
        .count();
    (middle >= 1 && 2 * regular > apart.len()).then_some(middle as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dates(texts: &[&str]) -> Clock {
        Clock::Dates(texts.iter().map(|text| date(text).unwrap()).collect())
    }

    #[test]
    fn dates_are_read_in_their_usual_forms() {
        for text in [
            "2024-02-29",
            "2024/02/29",
            "29.02.2024",
            "20240229",
            "2024-02-29T00:00:00Z",
            "2024-02-29T01:00:00+01:00",
            "2024-02-29 00:00",
        ] {
            assert_eq!(
                date(text).map(shown).as_deref(),
                Some("2024-02-29"),
                "{text}"
            );
        }
        assert_eq!(date("2024-02").map(shown).as_deref(), Some("2024-02-01"));
        for text in ["2024", "12.5", "2023-02-29", "tomorrow", "1700000000"] {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn the_pace_continues() {
        let weekly = dates(&["2024-01-01", "2024-01-08", "2024-01-15", "2024-01-29"]);
        assert_eq!(weekly.pace(), Some(Pace::Time(TimeDelta::days(7))));
        assert_eq!(weekly.steps_since(3, weekly.pace().unwrap()), Some(2));
        assert_eq!(weekly.continued(1).unwrap().text(4), "2024-02-05");
        let monthly = dates(&["2023-11-30", "2023-12-31", "2024-01-31", "2024-03-31"]);
        assert_eq!(monthly.pace(), Some(Pace::Months(1)));
        assert_eq!(monthly.steps_since(3, Pace::Months(1)), Some(2));
        assert_eq!(monthly.continued(1).unwrap().text(4), "2024-04-30");
        assert_eq!(monthly.cycles(100), [12]);
        let quarters = dates(&["2024-01-01", "2024-04-01", "2024-07-01"]);
        assert_eq!(quarters.pace(), Some(Pace::Months(3)));
        let hourly = dates(&["2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 02:00"]);
        assert_eq!(hourly.cycles(200), [168, 24]);
        assert_eq!(hourly.calendar(13 * 24), [1.0, 0.5, 1.0 / 3.0]);
        assert_eq!(hourly.calendar(14 * 24).len(), 6);
        assert_eq!(monthly.calendar(24), [YEAR, YEAR / 2.0, YEAR / 3.0]);
        let seasons = hourly.seasons(1, &[1.0]);
        assert!(
            (seasons[0] - (TAU / 24.0).sin()).abs() < 1e-9,
            "{seasons:?}"
        );
        let irregular = dates(&["2024-01-01", "2024-01-02", "2024-01-09", "2024-02-20"]);
        assert_eq!(irregular.pace(), None);
        let numbers = Clock::Numbers(vec![0.0, 0.1, 0.2, 0.5]);
        let pace = numbers.pace().unwrap();
        assert_eq!(numbers.steps_since(3, pace), Some(3));
        assert_eq!(Clock::Order(3).continued(2), Some(Clock::Order(5)));
    }
}
