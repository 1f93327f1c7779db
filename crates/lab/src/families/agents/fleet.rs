//! Actors on threads of their own. The learner takes the first unroll that is ready.

use super::{actor::Actor, unroll::Unroll};
use mnemora_models::Agent;
use mnemora_training::{Error, say::note, threads::Threads};
use mnemora_worlds::Finished;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

/// What the actors share with the learner.
struct Shared {
    /// The policy, and the number of updates that made it.
    policy: Mutex<(u64, Agent)>,
    stopping: AtomicBool,
    /// Unrolls that the actors have finished.
    made: AtomicU64,
}

/// An unroll and where it comes from.
pub struct Sent {
    /// The number of its actor.
    actor: usize,
    /// How many unrolls this actor had made before.
    number: u64,
    /// The number of updates that made the policy that acted.
    pub policy: u64,
    /// What happened.
    pub unroll: Unroll,
    /// Episodes that ended in it.
    pub finished: Vec<Finished>,
}

/// Actors on threads of their own. Actors do not wait for each other, and the learner takes the first unroll that is ready.
/// The queue has one place for each actor; an actor whose unroll has no place in it waits.
pub struct Fleet {
    ready: Receiver<Result<Sent, Error>>,
    shared: Arc<Shared>,
    /// Unrolls taken from each actor.
    taken: Vec<u64>,
}

/// What became of the unrolls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// Finished by the actors.
    pub made: u64,
    /// Learned from.
    pub taken: u64,
    /// Ready or being handed over when the fleet was stopped.
    pub left: u64,
}

impl Fleet {
    /// Starts a thread for each actor, with unrolls of `time` steps. `policy` is the agent after `updates` updates, off
    /// the autodiff device.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        actors: Vec<Actor>,
        policy: Agent,
        updates: u64,
        time: usize,
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            policy: Mutex::new((updates, policy)),
            stopping: AtomicBool::new(false),
            made: AtomicU64::new(0),
        });
        note(format_args!(
            "asynchronous: {} actors on threads; this run does not resume bit for bit",
            actors.len()
        ));
        // If a thread cannot be started, the others end when they find that nobody takes their unrolls.
        let (sender, ready) = sync_channel(actors.len());
        let taken = vec![0; actors.len()];
        for (number, actor) in actors.into_iter().enumerate() {
            let (sender, shared) = (sender.clone(), shared.clone());
            // The operations of an actor stay on one thread.
            let own = Threads::exactly(1)?;
            let work = move || {
                let acted = own.run(|| {
                    act(actor, number, time, &shared, &sender);
                    Ok::<_, Error>(())
                });
                if acted.is_err() {
                    // Nobody waits for an error any more if this fails.
                    let _ = sender.send(Err(Error::Thread("actor")));
                }
            };
            thread::Builder::new()
                .name(format!("actor {number}"))
                .spawn(work)
                .map_err(|_| Error::Thread("actor"))?;
        }
        Ok(Self {
            ready,
            taken,
            shared,
        })
    }

    /// The policy of all unrolls that begin from now on.
    pub fn publish(&self, updates: u64, policy: Agent) {
        let held = self.shared.policy.lock();
        *held.unwrap_or_else(PoisonError::into_inner) = (updates, policy);
    }

    /// The next unroll; waits until one is ready.
    ///
    /// # Errors
    /// An environment or a thread of an actor failed, or an unroll was lost.
    pub fn take(&mut self) -> Result<Sent, Error> {
        let sent = self.ready.recv().unwrap_or(Err(Error::Thread("actor")))?;
        let taken = &mut self.taken[sent.actor];
        if sent.number != *taken {
            return Err(Error::LostUnroll {
                actor: sent.actor,
                number: *taken,
            });
        }
        *taken += 1;
        Ok(sent)
    }

    /// Stops the actors, waits for their last unrolls, and counts.
    pub fn stop(&mut self) -> Ledger {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // It ends when every thread has ended.
        let left = self.ready.iter().filter(Result::is_ok).count() as u64;
        Ledger {
            made: self.shared.made.load(Ordering::SeqCst),
            taken: self.taken.iter().sum(),
            left,
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if self.shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ledger { made, taken, left } = self.stop();
        note(format_args!(
            "unrolls: {made} made, {taken} learned from, {left} left at the end"
        ));
    }
}

/// The work of an actor: unrolls until the fleet stops.
fn act(
    mut actor: Actor,
    number: usize,
    time: usize,
    shared: &Shared,
    ready: &SyncSender<Result<Sent, Error>>,
) {
    for unrolls in 0.. {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let held = shared.policy.lock();
        let (policy, agent) = held.unwrap_or_else(PoisonError::into_inner).clone();
        let unroll = actor.unroll(&agent, time);
        if unroll.is_ok() {
            shared.made.fetch_add(1, Ordering::SeqCst);
        }
        let failed = unroll.is_err();
        let sent = unroll.map_err(Error::from).map(|unroll| Sent {
            actor: number,
            number: unrolls,
            policy,
            unroll,
            finished: actor.finished(),
        });
        if ready.send(sent).is_err() || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use mnemora_memory::{CoreConfig, Initializer, LstmConfig};
    use mnemora_models::{AgentConfig, ImageShape, ModelError};
    use mnemora_worlds::{
        Environment, Error as WorldError, FrameShape, Spec, Step, Stream, Vectorised,
    };
    use std::time::Instant;

    /// Three steps an episode, and no step while somebody else holds the gate.
    struct Gated {
        gate: Arc<Mutex<()>>,
        steps: u8,
    }

    impl Environment for Gated {
        fn spec(&self) -> Spec {
            Spec {
                frame: FrameShape {
                    channels: 1,
                    height: 1,
                    width: 1,
                },
                actions: &["one", "other"],
            }
        }

        fn reset(&mut self, _: u64, observation: &mut [f32]) -> Result<Step, WorldError> {
            self.steps = 0;
            observation.fill(0.0);
            Ok(Step {
                reward: 0.0,
                first: true,
                last: false,
            })
        }

        fn step(&mut self, action: usize, observation: &mut [f32]) -> Result<Step, WorldError> {
            assert!(self.gate.lock().is_ok(), "the gate is broken");
            self.steps += 1;
            observation.fill(f32::from(self.steps) / 3.0);
            Ok(Step {
                reward: action as f32,
                first: false,
                last: self.steps == 3,
            })
        }

        fn save(&self) -> Vec<u8> {
            vec![self.steps]
        }

        fn restore(&mut self, saved: &[u8]) -> Result<(), WorldError> {
            self.steps = saved[0];
            Ok(())
        }
    }

    fn agent() -> Agent {
        let stream = Stream::new(1, "parameters").at(0);
        let mut init = Initializer::new(stream, Device::default());
        let sees = ImageShape {
            channels: 1,
            height: 1,
            width: 1,
        };
        let core = |input| Ok::<_, ModelError>(CoreConfig::Lstm(LstmConfig { input, hidden: 3 }));
        AgentConfig::default()
            .init(sees, 2, core, &mut init)
            .unwrap()
    }

    /// A fleet of an actor for each gate.
    fn fleet(gates: &[Arc<Mutex<()>>]) -> Fleet {
        let agent = agent();
        let actors = gates.iter().enumerate().map(|(number, gate)| {
            let environment: Box<dyn Environment> = Box::new(Gated {
                gate: gate.clone(),
                steps: 0,
            });
            let environments = Vectorised::new(vec![environment], number as u64).unwrap();
            Actor::new(environments, &agent, Stream::new(number as u64, "actions"))
        });
        Fleet::start(actors.collect(), agent.clone(), 0, 4).unwrap()
    }

    #[test]
    fn a_slow_actor_keeps_nobody_waiting_and_no_unroll_is_lost() {
        let gates: [Arc<Mutex<()>>; 3] = std::array::from_fn(|_| Arc::default());
        let mut fleet = fleet(&gates);
        {
            let _shut = gates[1].lock().unwrap();
            // Two that it made before the gate was shut may be among them: one in the queue, one in hand.
            let slow = (0..30).filter(|_| fleet.take().unwrap().actor == 1).count();
            assert!(slow <= 2 + 1, "{slow}");
            fleet.publish(7, agent());
        }
        // Each actor had begun at most two unrolls before the policy was there: one in the queue, one in work.
        let later: Vec<u64> = (0..40).map(|_| fleet.take().unwrap().policy).collect();
        let before = later.iter().filter(|policy| **policy == 0).count();
        assert!(before <= 2 * gates.len(), "{later:?}");
        // The slow one comes back as soon as the system gives its thread a turn, however many the others make until then.
        let (began, mut taken) = (Instant::now(), 70);
        while fleet.taken[1] == 0 {
            assert!(began.elapsed().as_secs() < 60, "it came back");
            fleet.take().unwrap();
            taken += 1;
        }
        let ledger = fleet.stop();
        assert_eq!(ledger.taken, taken);
        assert_eq!(ledger.made, ledger.taken + ledger.left, "{ledger:?}");
    }

    #[test]
    fn an_actor_that_fails_ends_the_training_and_says_how_to_replay_it() {
        let gate: Arc<Mutex<()>> = Arc::default();
        let breaking = gate.clone();
        let broken = thread::spawn(move || {
            let _held = breaking.lock();
            panic!("a panic while it is held breaks a lock");
        });
        assert!(broken.join().is_err());
        let error = fleet(&[gate]).take().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("the gate is broken"), "{error}");
        assert!(error.contains("seed"), "{error}");
    }
}
