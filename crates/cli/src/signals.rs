//! SIGINT and SIGTERM, noticed between two training steps.

use mnemora_lab::LabError;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The last signal that asked to stop.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<AtomicUsize>);

impl StopSignal {
    /// Listens from now on. A second signal of the kind ends the process at once.
    pub fn listen() -> Result<Self, LabError> {
        let signal = Self::default();
        for number in [SIGINT, SIGTERM] {
            let register = || {
                let armed = Arc::new(std::sync::atomic::AtomicBool::new(false));
                signal_hook::flag::register_conditional_shutdown(
                    number,
                    128 + number,
                    armed.clone(),
                )?;
                signal_hook::flag::register(number, armed)?;
                signal_hook::flag::register_usize(number, signal.0.clone(), number as usize)
            };
            register().map_err(|_| LabError::Thread("signal handler"))?;
        }
        Ok(signal)
    }

    /// The signal's number, once there was one.
    pub fn received(&self) -> Option<i32> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            number => i32::try_from(number).ok(),
        }
    }
}
