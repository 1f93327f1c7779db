//! A clock that goes on as rows arrive.

use super::{
    Clock, Pace,
    clock::{after, date},
};
use chrono::DateTime;

/// The time of the last row, and the distance of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticking {
    /// Of one step, or of none; of all if they are only counted.
    last: Clock,
    pace: Option<Pace>,
}

impl Ticking {
    /// After the last step of a clock.
    pub fn after(clock: &Clock) -> Self {
        let last = match clock {
            Clock::Order(steps) => Clock::Order(*steps),
            Clock::Numbers(times) => Clock::Numbers(times.last().copied().into_iter().collect()),
            Clock::Dates(times) => Clock::Dates(times.last().copied().into_iter().collect()),
        };
        Self {
            last,
            pace: clock.pace(),
        }
    }

    /// Before the first step of another sequence, with the same distance of rows.
    pub fn fresh(&self) -> Self {
        Self {
            last: self.last.first(0),
            pace: self.pace,
        }
    }

    /// The clock of the next row, whose time may be given.
    fn next(&self, text: Option<&str>) -> Result<Clock, String> {
        let text = text.map(str::trim).filter(|text| !text.is_empty());
        let not = |text: &str, what: &str| format!("{text:?} is not {what}");
        match (&self.last, text, self.pace) {
            (Clock::Order(steps), _, _) => Ok(Clock::Order(steps + 1)),
            (Clock::Numbers(_), Some(text), _) => {
                let number = text.parse().ok().filter(|number: &f64| number.is_finite());
                let number = number.ok_or_else(|| not(text, "a number"))?;
                Ok(Clock::Numbers(vec![number]))
            }
            (Clock::Dates(_), Some(text), _) => {
                let found = date(text).ok_or_else(|| not(text, "a date"))?;
                Ok(Clock::Dates(vec![found]))
            }
            (Clock::Numbers(last), None, Some(Pace::Number(apart))) if !last.is_empty() => {
                Ok(Clock::Numbers(vec![last[0] + apart]))
            }
            (Clock::Dates(last), None, Some(pace)) if !last.is_empty() => {
                let next = after(last[0], pace, 1).ok_or("the calendar ends here")?;
                Ok(Clock::Dates(vec![next]))
            }
            (_, None, _) => Err("it is missing".into()),
        }
    }

    /// How many steps are missing before the next row, whose time is given if rows have times.
    ///
    /// # Errors
    /// As text: the time cannot be read, is missing where it is needed, or does not come after the last one.
    pub fn missing(&self, text: Option<&str>) -> Result<usize, String> {
        let both = match (&self.last, self.next(text)?) {
            (Clock::Numbers(last), Clock::Numbers(next)) => {
                Clock::Numbers([last.as_slice(), &next].concat())
            }
            (Clock::Dates(last), Clock::Dates(next)) => {
                Clock::Dates([last.as_slice(), &next].concat())
            }
            _ => return Ok(0),
        };
        let later = match &both {
            Clock::Numbers(times) => times.windows(2).all(|pair| pair[1] > pair[0]),
            Clock::Dates(times) => times.windows(2).all(|pair| pair[1] > pair[0]),
            Clock::Order(_) => true,
        };
        if !later {
            return Err(format!(
                "{} does not come after {}",
                both.text(1),
                both.text(0)
            ));
        }
        // Off the beat to the nearest step.
        let steps = match (both.steps(), self.pace) {
            (2, Some(pace)) => both.nearest_steps_since(1, pace),
            _ => 1,
        };
        Ok(steps - 1)
    }

    /// Goes on to the next row, whose time may be given; without it by the distance of rows.
    ///
    /// # Errors
    /// As [`missing`](Self::missing).
    pub fn tick(&mut self, text: Option<&str>) -> Result<(), String> {
        self.last = self.next(text)?;
        Ok(())
    }

    /// The time of the last row as text; its number if rows are only counted. Empty before the first one.
    pub fn text(&self) -> String {
        match (&self.last, self.last.steps()) {
            (_, 0) => String::new(),
            (clock, steps) => clock.text(steps - 1),
        }
    }

    /// The time of the row that follows by the distance of rows; empty if there is none.
    pub fn next_text(&self) -> String {
        let mut next = self.clone();
        match next.tick(None) {
            Ok(()) => next.text(),
            Err(_) => String::new(),
        }
    }

    /// The place of the last row in cycles of the calendar, as [`Clock::seasons`]; zeros before the first one.
    pub fn seasons(&self, cycles: &[f64]) -> Vec<f64> {
        match self.last.steps() {
            0 => vec![0.0; 2 * cycles.len()],
            steps => self.last.seasons(steps - 1, cycles),
        }
    }

    /// The same of the row that follows by the distance of rows; zeros if there is none.
    pub fn next_seasons(&self, cycles: &[f64]) -> Vec<f64> {
        let mut next = self.clone();
        match next.tick(None) {
            Ok(()) => next.seasons(cycles),
            Err(_) => vec![0.0; 2 * cycles.len()],
        }
    }

    /// The time of the last row as a number, NaN before the first one; microseconds of a date.
    pub fn save(&self) -> f64 {
        match &self.last {
            Clock::Order(steps) => *steps as f64,
            Clock::Numbers(times) => times.first().copied().unwrap_or(f64::NAN),
            Clock::Dates(times) => times
                .first()
                .map_or(f64::NAN, |time| time.and_utc().timestamp_micros() as f64),
        }
    }

    /// Goes to a time that [`save`](Self::save) gave.
    pub fn restore(&mut self, saved: f64) {
        self.last = match &self.last {
            Clock::Order(_) => Clock::Order(saved as usize),
            Clock::Numbers(_) if saved.is_nan() => Clock::Numbers(Vec::new()),
            Clock::Numbers(_) => Clock::Numbers(vec![saved]),
            Clock::Dates(_) => {
                let time = DateTime::from_timestamp_micros(saved as i64);
                let time = time.filter(|_| !saved.is_nan());
                Clock::Dates(time.map(|time| time.naive_utc()).into_iter().collect())
            }
        };
    }

    /// A clock of the last row and the `steps` that follow it; they are counted from 1 if rows have no pace.
    pub fn ahead(&self, steps: usize) -> Clock {
        match &self.last {
            // All of it, so that steps go on being counted.
            Clock::Order(past) => Clock::Order(past + steps),
            last => {
                let clock = last.clone().paced(self.pace, 1 + steps);
                clock.unwrap_or(Clock::Order(1 + steps))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weekly() -> Ticking {
        let days = ["2024-01-01", "2024-01-08", "2024-01-15"];
        Ticking::after(&Clock::Dates(
            days.iter().map(|day| date(day).unwrap()).collect(),
        ))
    }

    #[test]
    fn rows_come_one_after_the_other_and_gaps_are_counted() {
        let mut clock = weekly();
        assert_eq!(clock.missing(Some("2024-01-22")), Ok(0));
        assert_eq!(clock.missing(Some("2024-02-12")), Ok(3));
        assert_eq!(clock.missing(Some("2024-01-24")), Ok(0));
        assert_eq!(clock.missing(Some("2024-02-13")), Ok(3));
        assert_eq!(clock.missing(None), Ok(0));
        let refused = |text| clock.missing(Some(text)).unwrap_err();
        assert_eq!(
            refused("2024-01-15"),
            "2024-01-15 does not come after 2024-01-15"
        );
        assert_eq!(refused("soon"), "\"soon\" is not a date");
        assert_eq!(clock.next_text(), "2024-01-22");
        clock.tick(None).unwrap();
        assert_eq!(clock.text(), "2024-01-22");
        let saved = clock.save();
        let mut other = weekly();
        other.restore(saved);
        assert_eq!(other, clock);
        let mut fresh = clock.fresh();
        assert_eq!(fresh.missing(None), Err("it is missing".into()));
        assert_eq!(fresh.missing(Some("1999-01-01")), Ok(0));
        fresh.tick(Some("1999-01-01")).unwrap();
        assert_eq!(fresh.missing(Some("1999-01-15")), Ok(1));
        let ahead = clock.ahead(2);
        assert_eq!([ahead.text(0), ahead.text(2)], ["2024-01-22", "2024-02-05"]);
    }

    #[test]
    fn numbers_and_counted_rows_go_on() {
        let mut clock = Ticking::after(&Clock::Numbers(vec![0.0, 0.5, 1.0]));
        assert_eq!(clock.missing(Some("2.5")), Ok(2));
        clock.tick(None).unwrap();
        assert_eq!(clock.text(), "1.5");
        let mut counted = Ticking::after(&Clock::Order(7));
        assert_eq!(counted.missing(Some("whatever")), Ok(0));
        counted.tick(None).unwrap();
        assert_eq!([counted.text(), counted.next_text()], ["8", "9"]);
        assert_eq!(counted.fresh().text(), "");
        // Without a pace every time is the next one, and must be given.
        let uneven = Ticking::after(&Clock::Numbers(vec![0.0, 1.0, 5.0, 7.5]));
        assert_eq!(uneven.missing(Some("100")), Ok(0));
        assert_eq!(uneven.missing(None), Err("it is missing".into()));
    }
}
