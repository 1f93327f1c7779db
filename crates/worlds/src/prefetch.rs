//! Batches made ahead on a second thread, so that a training step never waits for its data.

use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use crate::{Batch, Error, Split, Stream, Task};

/// Yields the batches of a task in order, from any first index on; the same ones that
/// [`Task::batch`] gives.
///
/// The thread stops when this is dropped.
#[derive(Debug)]
pub struct Prefetch {
    /// `None` only while being dropped.
    batches: Option<Receiver<Batch>>,
    /// `None` once the thread has been waited for.
    producer: Option<JoinHandle<()>>,
    task: &'static str,
    next_index: u64,
    /// Why the thread stopped, if it did.
    failure: String,
}

impl Prefetch {
    /// Starts to make batches `first_index`, `first_index + 1`, ... of `batch` sequences.
    ///
    /// Up to `ahead` finished batches wait to be taken, and one more is in the making.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new(
        task: Arc<dyn Task>,
        split: Split,
        stream: Stream,
        first_index: u64,
        batch: usize,
        ahead: usize,
    ) -> Result<Prefetch, Error> {
        let name = task.name();
        let (sender, batches) = sync_channel(ahead);
        let producer = thread::Builder::new()
            .name(format!("batches of {name}"))
            .spawn(move || produce(&*task, split, &stream, first_index, batch, &sender))
            .map_err(|cause| Error::PrefetchNotStarted { task: name, cause })?;
        Ok(Prefetch {
            batches: Some(batches),
            producer: Some(producer),
            task: name,
            next_index: first_index,
            failure: String::new(),
        })
    }

    /// The number of the batch that [`Prefetch::next_batch`] yields next.
    pub fn next_index(&self) -> u64 {
        self.next_index
    }

    /// The next batch; waits where it is not ready yet.
    ///
    /// # Errors
    /// The task panicked while it made this batch. Batches finished before are still yielded;
    /// further calls repeat the error.
    pub fn next_batch(&mut self) -> Result<Batch, Error> {
        if let Some(Ok(batch)) = self.batches.as_ref().map(Receiver::recv) {
            self.next_index = self.next_index.wrapping_add(1);
            return Ok(batch);
        }
        if let Some(producer) = self.producer.take() {
            self.failure = match producer.join() {
                Ok(()) => "its thread ended".to_owned(),
                Err(panic) => panic_message(&*panic),
            };
        }
        Err(Error::PrefetchStopped {
            task: self.task,
            index: self.next_index,
            message: self.failure.clone(),
        })
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        // A producer that waits for a place in the channel wakes up when the receiver goes.
        self.batches = None;
        if let Some(producer) = self.producer.take() {
            // A panic that nobody came to collect no longer matters.
            let _ = producer.join();
        }
    }
}

/// Makes batches until nobody takes them any more.
fn produce(
    task: &dyn Task,
    split: Split,
    stream: &Stream,
    first_index: u64,
    batch: usize,
    sender: &SyncSender<Batch>,
) {
    let mut index = first_index;
    while sender.send(task.batch(split, stream, index, batch)).is_ok() {
        index = index.wrapping_add(1);
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
    use crate::{FrameShape, Mnist, PerfectRecall};
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    /// One-pixel sequences of one frame, which count the batches made and panic at batch `flaw`.
    struct Counting {
        made: Arc<AtomicU64>,
        flaw: u64,
    }

    impl Task for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }
        fn time(&self) -> usize {
            1
        }
        fn frame(&self) -> FrameShape {
            FrameShape {
                channels: 1,
                height: 1,
                width: 1,
            }
        }
        fn condition_width(&self) -> usize {
            0
        }
        fn prompt(&self) -> usize {
            1
        }
        fn recall_interval(&self) -> Option<Range<usize>> {
            None
        }
        fn batch(&self, _: Split, _: &Stream, index: u64, batch: usize) -> Batch {
            assert!(index != self.flaw, "no batch {index}");
            self.made.fetch_add(1, Ordering::SeqCst);
            Batch {
                frames: vec![0.5; batch],
                batch,
                time: 1,
                frame: self.frame(),
                conditions: None,
                labels: vec![index as u16; batch],
                predictable: vec![false; batch],
                sources: vec![None; batch],
                cells: None,
            }
        }
    }

    fn prefetch_counting(first_index: u64, flaw: u64, ahead: usize) -> (Prefetch, Arc<AtomicU64>) {
        let made = Arc::new(AtomicU64::new(0));
        let task = Arc::new(Counting {
            made: made.clone(),
            flaw,
        });
        let prefetch = Prefetch::new(
            task,
            Split::Train,
            Stream::new(0, "data"),
            first_index,
            2,
            ahead,
        );
        (prefetch.expect("threads can be started"), made)
    }

    /// Runs `test` on a thread of its own and fails where it does not end within ten seconds.
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

    #[test]
    fn yields_the_batches_of_the_task_in_order() {
        let digits = Arc::new(Mnist::bundled().expect("the bundled digits are sound"));
        let task = Arc::new(PerfectRecall::new(digits, 4, 2).expect("settings are in range"));
        let stream = Stream::new(9, "data");
        for (first, ahead) in [(0, 0), (0, 1), (17, 4), (u64::MAX - 2, 2)] {
            let mut prefetch =
                Prefetch::new(task.clone(), Split::Test, stream.clone(), first, 3, ahead)
                    .expect("threads can be started");
            for index in (0..6).map(|step| first.wrapping_add(step)) {
                assert_eq!(prefetch.next_index(), index);
                let batch = prefetch.next_batch().expect("the task is sound");
                assert_eq!(batch, task.batch(Split::Test, &stream, index, 3));
            }
        }
    }

    #[test]
    fn a_panic_in_the_task_is_an_error_after_the_sound_batches() {
        within_time(|| {
            let (mut prefetch, _) = prefetch_counting(5, 7, 4);
            assert_eq!(
                prefetch.next_batch().expect("batch 5 is sound").labels,
                [5, 5]
            );
            assert_eq!(
                prefetch.next_batch().expect("batch 6 is sound").labels,
                [6, 6]
            );
            for _ in 0..2 {
                let error = prefetch.next_batch().expect_err("batch 7 cannot be made");
                assert_eq!(
                    error.to_string(),
                    "task counting failed while making batch 7: no batch 7"
                );
            }
        });
    }

    #[test]
    fn dropping_ends_a_thread_that_waits_for_a_place() {
        within_time(|| {
            let (prefetch, made) = prefetch_counting(0, u64::MAX, 1);
            // One batch waits in the channel, a second one for its place.
            while made.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
            drop(prefetch);
            assert_eq!(made.load(Ordering::SeqCst), 2);
        });
    }

    #[test]
    fn dropping_after_a_panic_is_quiet() {
        within_time(|| drop(prefetch_counting(0, 0, 1)));
    }

    #[test]
    fn no_more_than_the_bound_is_made_ahead() {
        let (mut prefetch, made) = prefetch_counting(0, u64::MAX, 3);
        for taken in 1..=20 {
            prefetch.next_batch().expect("the task is sound");
            assert!(made.load(Ordering::SeqCst) <= taken + 3 + 1);
        }
    }
}
