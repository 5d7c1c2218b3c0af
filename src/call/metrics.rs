// SPDX-License-Identifier: GPL-3.0-or-later
//! What calls cost, per tool and, for bound tools, per library, and per MCP client: counts, times, sizes.
//! In memory.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use indexmap::IndexMap;

use crate::protocol::CallOutcome;
use crate::runtime::held;
use crate::tool::{Origin, Tool};

/// How many calls the median and the 95th percentile look back on.
const TIMES_KEPT: usize = 1000;

/// How many rows there are before further MCP clients, who choose their names, are counted together.
const MOST_ROWS: usize = 1000;

/// The name under which further MCP clients are counted.
const OTHER_MCP_CLIENTS: &str = "others";

/// The numbers of one tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    pub calls: u64,
    pub failures: u64,
    pub denials: u64,
    pub cancellations: u64,
    /// Bytes of all results together.
    pub result_bytes: u64,
    times: VecDeque<Duration>,
}

/// A tool, the library that it was bound from, and the MCP client that called it, if it was one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MetricsKey {
    pub tool: String,
    pub library: Option<String>,
    pub mcp_client: Option<String>,
}

impl MetricsKey {
    /// What calls of TOOL by an MCP CLIENT are counted under.
    #[must_use]
    pub fn of(tool: &Tool, client: Option<&str>) -> Self {
        Self {
            tool: tool.name.clone(),
            library: match &tool.origin {
                Origin::Library(name) => Some(name.clone()),
                Origin::BuiltIn | Origin::EmacsLisp | Origin::Image(_) | Origin::Server(_) => None,
            },
            mcp_client: client.map(str::to_owned),
        }
    }
}

/// The numbers of all tools.
#[derive(Debug, Default)]
pub struct Metrics {
    per_tool: Mutex<IndexMap<MetricsKey, Statistics>>,
}

impl Metrics {
    /// Counts one call; RUN is how long its work took, none when it did not get that far.
    pub fn record(
        &self,
        mut key: MetricsKey,
        outcome: CallOutcome,
        run: Option<Duration>,
        bytes: usize,
    ) {
        let mut per_tool = held(&self.per_tool);
        if key.mcp_client.is_some() && per_tool.len() >= MOST_ROWS && !per_tool.contains_key(&key) {
            key.mcp_client = Some(OTHER_MCP_CLIENTS.to_owned());
        }
        let statistics = per_tool.entry(key).or_default();
        statistics.calls += 1;
        statistics.result_bytes += bytes as u64;
        match outcome {
            CallOutcome::Succeeded => {}
            CallOutcome::Failed => statistics.failures += 1,
            CallOutcome::Denied => statistics.denials += 1,
            CallOutcome::Cancelled => statistics.cancellations += 1,
        }
        // How long the user thought about a call, or let it run in vain, says nothing of the tool.
        if let Some(elapsed) = run
            && matches!(outcome, CallOutcome::Succeeded | CallOutcome::Failed)
        {
            if statistics.times.len() == TIMES_KEPT {
                statistics.times.pop_front();
            }
            statistics.times.push_back(elapsed);
        }
    }

    /// The numbers so far, in order of first use.
    #[must_use]
    pub fn snapshot(&self) -> Vec<(MetricsKey, Statistics)> {
        held(&self.per_tool)
            .iter()
            .map(|(key, statistics)| (key.clone(), statistics.clone()))
            .collect()
    }
}

impl Statistics {
    /// The median time of the calls that ran.
    #[must_use]
    pub fn median(&self) -> Option<Duration> {
        self.quantile(0.5)
    }

    /// The time that 95 of 100 calls stayed within.
    #[must_use]
    pub fn p95(&self) -> Option<Duration> {
        self.quantile(0.95)
    }

    /// The smallest time that at least SHARE of the calls stayed within.
    fn quantile(&self, share: f64) -> Option<Duration> {
        let mut times: Vec<Duration> = self.times.iter().copied().collect();
        times.sort_unstable();
        let rank = (times.len() as f64 * share).ceil() as usize;
        times.get(rank.max(1) - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_outcomes_and_orders_times() {
        let metrics = Metrics::default();
        let key = || MetricsKey {
            tool: "echo".to_owned(),
            library: None,
            mcp_client: None,
        };
        for milliseconds in 1..=100 {
            let elapsed = Duration::from_millis(milliseconds);
            metrics.record(key(), CallOutcome::Succeeded, Some(elapsed), 10);
        }
        metrics.record(key(), CallOutcome::Denied, None, 4);
        let snapshot = metrics.snapshot();
        let (_, statistics) = &snapshot[0];
        assert_eq!((statistics.calls, statistics.denials), (101, 1));
        assert_eq!(statistics.result_bytes, 1004);
        assert_eq!(statistics.median(), Some(Duration::from_millis(50)));
        assert_eq!(statistics.p95(), Some(Duration::from_millis(95)));
        assert_eq!(Statistics::default().median(), None);
    }

    #[test]
    fn mcp_clients_with_ever_new_names_fill_no_memory() {
        let metrics = Metrics::default();
        for number in 0..2 * MOST_ROWS {
            let key = MetricsKey {
                tool: "echo".to_owned(),
                library: None,
                mcp_client: Some(format!("client{number}")),
            };
            metrics.record(key, CallOutcome::Succeeded, None, 1);
        }
        let snapshot = metrics.snapshot();
        assert_eq!(snapshot.len(), MOST_ROWS + 1);
        assert_eq!(snapshot.iter().map(|(_, it)| it.calls).sum::<u64>(), 2000);
    }
}
