// SPDX-License-Identifier: GPL-3.0-or-later
//! What tells one file from all others, and how a folder on the way to one is opened.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{OFlags, Stat};

/// What opening a folder on the way needs: the right to pass, not to list it.
#[cfg(target_os = "linux")]
pub(super) const PASS: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
pub(super) const PASS: OFlags = OFlags::RDONLY;

/// What tells one file from all others, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
}

impl Identity {
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    reason = "their types differ by system"
)]
pub(super) fn identity(stat: &Stat) -> Identity {
    Identity {
        device: stat.st_dev as u64,
        inode: stat.st_ino as u64,
    }
}
