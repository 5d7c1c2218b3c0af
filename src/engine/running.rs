// SPDX-License-Identifier: GPL-3.0-or-later
//! The batches that run, as the engine keeps them: how they are cancelled.

use std::sync::Arc;

use once_cell::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// How a batch that runs is cancelled.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningBatch {
    pub(super) cancel: CancellationToken,
    pub(super) why_cancelled: Arc<OnceCell<String>>,
}
