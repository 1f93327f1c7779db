//! Batches made ahead on a second thread, so that updates do not wait for data.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use crate::Error;

/// Makes batch `index` at a level of the curriculum.
type Make<B, L> = dyn Fn(&L, u64) -> B + Send + Sync;

/// A source of batches that makes the next ones while the last one is being used.
///
/// Batch `index` depends only on `index` and a level, so a batch made ahead equals one made on demand.
/// The level is for tasks with a curriculum: batches made ahead are thrown away when training changes the level.
/// Tasks without a curriculum have the level `()`.
///
/// The thread starts with the first batch and stops when this is dropped.
///
/// ```
/// use mnemora_worlds::{CopyTask, Prefetch, Stream};
///
/// let task = CopyTask::new(8, 20)?;
/// let data = Stream::new(1, "data");
/// let mut strings = Prefetch::new("copy", 2, move |_: &(), index| task.batch(&data, index, 16, None));
/// assert_eq!(strings.batch(0, ())?.batch, 16);
/// # Ok::<(), mnemora_worlds::Error>(())
/// ```
pub struct Prefetch<B, L = ()> {
    name: String,
    ahead: usize,
    make: Arc<Make<B, L>>,
    producer: Option<Producer<B, L>>,
}

impl<B, L> Prefetch<B, L> {
    /// `make` makes a batch from a level and an index. Up to `ahead` finished batches wait, and one more is being
    /// made. `name` is the name of the task, for messages and for the thread.
    pub fn new(
        name: impl Into<String>,
        ahead: usize,
        make: impl Fn(&L, u64) -> B + Send + Sync + 'static,
    ) -> Prefetch<B, L> {
        Prefetch {
            name: name.into(),
            ahead,
            make: Arc::new(make),
            producer: None,
        }
    }

    /// Batch `index` at `level`, made on this thread.
    pub fn make(&self, index: u64, level: &L) -> B {
        (self.make)(level, index)
    }
}

impl<B, L> Prefetch<B, L>
where
    B: Send + 'static,
    L: Clone + PartialEq + Send + 'static,
{
    /// Batch `index` at `level`; it was made ahead if the last call asked for the batch before it at the same
    /// level. Waits until it is ready.
    ///
    /// # Errors
    /// The thread cannot be started, or the task panicked while it made this batch.
    pub fn batch(&mut self, index: u64, level: L) -> Result<B, Error> {
        let follows = |producer: &Producer<B, L>| producer.next == index && producer.level == level;
        // A new thread may start only after the last one has ended.
        let mut producer = match self.producer.take().filter(follows) {
            Some(producer) => producer,
            None => Producer::start(&self.name, self.ahead, &self.make, index, level)?,
        };
        match producer.take() {
            Ok(batch) => {
                self.producer = Some(producer);
                Ok(batch)
            }
            Err(message) => Err(Error::PrefetchStopped {
                task: self.name.clone(),
                index,
                message,
            }),
        }
    }
}

impl<B, L: fmt::Debug> fmt::Debug for Prefetch<B, L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let started = self.producer.as_ref();
        formatter
            .debug_struct("Prefetch")
            .field("name", &self.name)
            .field("ahead", &self.ahead)
            .field("next", &started.map(|producer| producer.next))
            .field("level", &started.map(|producer| &producer.level))
            .finish()
    }
}

/// A thread that makes the batches of one level, one after the other.
struct Producer<B, L> {
    level: L,
    /// The number of the next batch.
    next: u64,
    /// `None` only while being dropped.
    batches: Option<Receiver<B>>,
    /// `None` once the thread has been waited for.
    thread: Option<JoinHandle<()>>,
}

impl<B, L> Producer<B, L>
where
    B: Send + 'static,
    L: Clone + Send + 'static,
{
    fn start(
        name: &str,
        ahead: usize,
        make: &Arc<Make<B, L>>,
        first: u64,
        level: L,
    ) -> Result<Self, Error> {
        let (sender, batches) = sync_channel(ahead);
        let (make, at) = (make.clone(), level.clone());
        let work = move || {
            let mut index = first;
            // Until the receiver is gone.
            while sender.send(make(&at, index)).is_ok() {
                index = index.wrapping_add(1);
            }
        };
        let thread = thread::Builder::new().name(format!("batches of {name}"));
        let thread = thread
            .spawn(work)
            .map_err(|cause| Error::PrefetchNotStarted {
                task: name.to_owned(),
                cause,
            })?;
        Ok(Self {
            level,
            next: first,
            batches: Some(batches),
            thread: Some(thread),
        })
    }

    /// The next batch, or why there is none.
    fn take(&mut self) -> Result<B, String> {
        if let Some(Ok(batch)) = self.batches.as_ref().map(Receiver::recv) {
            self.next = self.next.wrapping_add(1);
            return Ok(batch);
        }
        Err(match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => panic_message(&*panic),
            Some(Ok(())) | None => "its thread ended".to_owned(),
        })
    }
}

impl<B, L> Drop for Producer<B, L> {
    fn drop(&mut self) {
        // A thread that waits for room in the channel wakes up when the receiver is dropped.
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            // A panic does not matter if nobody asked for the batch.
            let _ = thread.join();
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it panicked without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CopyTask, Corpus, Curriculum, Draw, FrameShape, Hardness, Mnist, MovingDigits, NthFarthest,
        Origin, Part, Parts, PerfectRecall, ProgramKind, Programs, Recording, Split, Stream, Task,
        Text, TextSettings, Values,
    };
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    /// Each batch is its level and number; counts the batches made, and panics at batch `flaw`.
    fn counting(flaw: u64, ahead: usize) -> (Prefetch<(u8, u64), u8>, Arc<AtomicU64>) {
        let made = Arc::new(AtomicU64::new(0));
        let count = made.clone();
        let make = move |level: &u8, index| {
            assert!(index != flaw, "no batch {index}");
            count.fetch_add(1, Ordering::SeqCst);
            (*level, index)
        };
        (Prefetch::new("counting", ahead, make), made)
    }

    /// Runs `test` on its own thread and fails if it does not end within ten seconds.
    fn within_time(test: impl FnOnce() + Send + 'static) {
        let (done, wait) = mpsc::channel();
        let tested = thread::spawn(move || {
            test();
            let _ = done.send(());
        });
        if wait.recv_timeout(Duration::from_secs(10)) == Err(mpsc::RecvTimeoutError::Timeout) {
            panic!("hangs");
        }
        tested.join().expect("the test passes");
    }

    /// Batches made ahead equal those made in place, whichever comes first.
    fn assert_same<B, L>(name: &str, level: L, make: impl Fn(&L, u64) -> B + Send + Sync + 'static)
    where
        B: Send + PartialEq + fmt::Debug + 'static,
        L: Clone + PartialEq + Send + 'static,
    {
        let make = Arc::new(make);
        for (first, ahead) in [(0, 0), (0, 1), (17, 4)] {
            let ahead_of_use = make.clone();
            let mut batches = Prefetch::new(name, ahead, move |level: &L, index| {
                ahead_of_use(level, index)
            });
            for index in first..first + 5 {
                let found = batches
                    .batch(index, level.clone())
                    .expect("the task is sound");
                assert_eq!(found, make(&level, index), "batch {index} of {name}");
            }
        }
    }

    /// Checks every kind of training data.
    #[test]
    fn batches_made_ahead_are_those_made_in_place() {
        let digits = Arc::new(Mnist::bundled().expect("the bundled digits are sound"));
        let data = Stream::new(9, "data");

        let (task, stream) = (
            PerfectRecall::new(digits.clone(), 4, 2).expect("settings are in range"),
            data.clone(),
        );
        assert_same("frames", (), move |(), index| {
            task.batch(Split::Train, &stream, index, 3)
        });

        let (task, stream) = (
            MovingDigits::new(digits, 2, 3).expect("settings are in range"),
            data.clone(),
        );
        assert_same("moving digits", (), move |(), index| {
            task.batch(Split::Train, &stream, index, 2)
        });

        let (task, stream) = (
            CopyTask::new(8, 5).expect("settings are in range"),
            data.clone(),
        );
        assert_same("copy", (), move |(), index| {
            task.batch(&stream, index, 3, None)
        });

        let task = NthFarthest::new(5, 4).expect("settings are in range");
        let stream = data.clone();
        let level = task.with_admitted(2).expect("of five");
        assert_same("nth-farthest", level, move |task: &NthFarthest, index| {
            task.batch(&stream, index, 3)
        });

        let hardest = Hardness {
            length: 4,
            nesting: 2,
        };
        let task = Programs::new(ProgramKind::Addition, hardest).expect("settings are in range");
        let stream = data.clone();
        for level in [
            Curriculum::Baseline,
            Curriculum::Combined(Hardness::EASIEST),
        ] {
            let stream = stream.clone();
            assert_same("programs", level, move |level: &Curriculum, index| {
                task.batch(Part::Train, &stream, index, 3, *level)
            });
        }

        let numbers = |length: usize| Recording {
            name: length.to_string(),
            values: Values::Numbers((0..length).map(|step| step as f32).collect()),
        };
        let parts = Parts {
            train: vec![numbers(7), numbers(12), numbers(30)],
            ..Parts::default()
        };
        let frame = FrameShape {
            channels: 1,
            height: 1,
            width: 1,
        };
        let corpus = Corpus::new("numbers", frame, parts, Origin::Bundled, Vec::new());
        let stream = data.clone();
        assert_same("recordings", (), move |(), index| {
            let draw = Draw::EachRecording;
            corpus
                .window_batch(Part::Train, &stream, index, 2, 5, draw)
                .expect("all are longer")
        });

        let text = Text::bundled(&TextSettings::default()).expect("the bundled books are sound");
        assert_same("text", (), move |(), index| {
            text.batch(Part::Train, index, 4, 7)
                .expect("it has more words")
        });
    }

    #[test]
    fn any_batch_can_be_asked_for() {
        let (mut batches, _) = counting(u64::MAX, 2);
        for index in [3, 4, 4, 9, 0, 1, 2, u64::MAX - 2, u64::MAX - 1, 5] {
            assert_eq!(batches.batch(index, 0).expect("is sound"), (0, index));
        }
    }

    /// Batches made ahead at another level are not used.
    #[test]
    fn another_level_begins_with_the_next_batch() {
        let (mut batches, made) = counting(u64::MAX, 2);
        let levels = [1, 1, 1, 2, 2, 1, 3, 3];
        for (index, level) in (0..).zip(levels) {
            assert_eq!(
                batches.batch(index, level).expect("is sound"),
                (level, index)
            );
        }
        drop(batches);
        // Four levels, each with at most three batches more than were taken.
        assert!(made.load(Ordering::SeqCst) <= 8 + 4 * 3);
    }

    #[test]
    fn a_panic_in_the_task_is_an_error_after_the_sound_batches() {
        within_time(|| {
            let (mut batches, _) = counting(7, 4);
            for index in [5, 6] {
                assert_eq!(batches.batch(index, 0).expect("is sound"), (0, index));
            }
            for _ in 0..2 {
                let error = batches.batch(7, 0).expect_err("batch 7 cannot be made");
                assert_eq!(
                    error.to_string(),
                    "task counting failed while making batch 7: no batch 7"
                );
            }
            assert_eq!(batches.batch(8, 0).expect("is sound"), (0, 8));
        });
    }

    #[test]
    fn dropping_ends_a_thread_that_waits_for_a_place() {
        within_time(|| {
            let (mut batches, made) = counting(u64::MAX, 1);
            batches.batch(0, 0).expect("is sound");
            // One batch is in the channel, and another one waits for room.
            while made.load(Ordering::SeqCst) < 3 {
                thread::yield_now();
            }
            drop(batches);
            assert_eq!(made.load(Ordering::SeqCst), 3);
        });
    }

    #[test]
    fn dropping_after_a_panic_is_quiet() {
        within_time(|| {
            let (mut batches, _) = counting(1, 1);
            batches.batch(0, 0).expect("is sound");
        });
    }

    #[test]
    fn no_more_than_the_bound_is_made_ahead() {
        let (mut batches, made) = counting(u64::MAX, 3);
        for index in 0..20 {
            batches.batch(index, 0).expect("is sound");
            assert!(made.load(Ordering::SeqCst) <= index + 1 + 3 + 1);
        }
    }
}
