//! Saved states whose damage is found: a checksum at their end, and a fingerprint of settings at the beginning.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::Error;

pub(crate) const DAMAGED: Error = Error::SavedState {
    problem: "it is damaged",
};

const OTHERS: Error = Error::SavedState {
    problem: "its settings, or the version of the program, are others",
};

/// Appends the CRC-32C of `content` in little-endian order.
pub(crate) fn sealed(mut content: Vec<u8>) -> Vec<u8> {
    content.extend(crc32c::crc32c(&content).to_le_bytes());
    content
}

/// What was [`sealed`].
///
/// # Errors
/// The checksum is another.
pub(crate) fn opened(saved: &[u8]) -> Result<&[u8], Error> {
    let (content, checksum) = saved.split_last_chunk().ok_or(DAMAGED)?;
    match crc32c::crc32c(content) == u32::from_le_bytes(*checksum) {
        true => Ok(content),
        false => Err(DAMAGED),
    }
}

/// Marks the saved states of rules with these settings.
pub(crate) struct Fingerprint([u8; 8]);

impl Fingerprint {
    /// `version` names the rules and the layout of their states.
    pub(crate) fn of(version: &str, settings: &impl Serialize) -> Fingerprint {
        let settings = serde_json::to_vec(settings).expect("settings can be written");
        let hash = Sha256::new()
            .chain_update(version)
            .chain_update(settings)
            .finalize();
        Fingerprint(std::array::from_fn(|byte| hash[byte]))
    }

    /// The beginning of a state to be [`sealed`].
    pub(crate) fn begun(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// What follows the fingerprint of a state that was [`sealed`].
    ///
    /// # Errors
    /// The state is damaged, or has another fingerprint.
    pub(crate) fn opened<'a>(&self, saved: &'a [u8]) -> Result<&'a [u8], Error> {
        let (fingerprint, rest) = opened(saved)?.split_first_chunk().ok_or(DAMAGED)?;
        match *fingerprint == self.0 {
            true => Ok(rest),
            false => Err(OTHERS),
        }
    }
}
