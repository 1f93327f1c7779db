//! SIGINT and SIGTERM, checked between two training steps.

use mnemora_lab::{LabError, TrainingError};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// The last signal that asked to stop.
#[derive(Clone, Debug, Default)]
pub struct StopSignal {
    received: Arc<AtomicUsize>,
    /// Whether the next signal ends the process at once.
    armed: Arc<AtomicBool>,
}

impl StopSignal {
    /// Listens from now on. A second signal ends the process at once.
    pub fn listen() -> Result<Self, LabError> {
        let signal = Self::default();
        for number in [SIGINT, SIGTERM] {
            let register = || {
                signal_hook::flag::register_conditional_shutdown(
                    number,
                    128 + number,
                    signal.armed.clone(),
                )?;
                signal_hook::flag::register(number, signal.armed.clone())?;
                let received = signal.received.clone();
                signal_hook::flag::register_usize(number, received, number as usize)
            };
            register().map_err(|_| TrainingError::Thread("signal handler"))?;
        }
        Ok(signal)
    }

    /// Sets whether from now on even the first signal ends the process at once.
    pub fn end_at_once(&self, yes: bool) {
        self.armed.store(yes, Ordering::Relaxed);
    }

    /// The number of the signal, once one was received: the program ends with [`exit_code`] of it.
    pub fn received(&self) -> Option<i32> {
        match self.received.load(Ordering::Relaxed) {
            0 => None,
            number => i32::try_from(number).ok(),
        }
    }
}

/// The exit status of a program that a signal ended.
pub fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}
