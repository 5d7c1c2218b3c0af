// SPDX-License-Identifier: GPL-3.0-or-later
//! Rules for whatever is asked about for the same: by the same operators, or for the same reasons. Such
//! a rule is wide, so that it has to cover all that a call is asked about.

use globset::escape;

use super::{Alarm, Effect, Floor, OtherAlarms, Rule, RuledCall, Scope};
use crate::trust::SafetyLevel;

/// How much a rule that is offered covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// The same operators.
    Operator,
    /// The same reasons.
    Reason,
}

impl Width {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Reason => "reason",
        }
    }
}

impl Rule {
    /// Rules for calls that are asked about for the same as CALL, narrower ones first; none where
    /// something else is among that.
    #[must_use]
    pub fn wider(call: &RuledCall<'_>, scope: &Scope) -> Vec<(Width, Self)> {
        let alarms = call.alarms;
        if call.level != SafetyLevel::Dangerous
            || alarms.others == OtherAlarms::Some
            || alarms.found.is_empty()
            || !alarms.found.iter().all(Alarm::is_wide)
        {
            return Vec::new();
        }
        let rule = |found: Vec<Alarm>| {
            let mut rule = Self::new(Effect::Allow, call.tool, scope.clone());
            rule.dangerous = Floor::Waived;
            rule.connection = call.connection.map(escape);
            rule.client = call.client.map(escape);
            rule.alarms = found;
            rule.alarms.sort();
            rule.alarms.dedup();
            rule
        };
        let mut rules = Vec::new();
        if alarms.found.iter().all(|it| it.operator.is_some()) {
            rules.push((Width::Operator, rule(alarms.found.clone())));
        }
        let reasons = alarms.found.iter().map(|it| Alarm {
            reason: it.reason.clone(),
            operator: None,
        });
        rules.push((Width::Reason, rule(reasons.collect())));
        rules
    }

    /// Whether the alarms leave anything out, and are such as may be allowed.
    pub(super) fn has_wide_alarms(&self) -> bool {
        !self.alarms.is_empty() && self.alarms.iter().all(Alarm::is_wide)
    }

    /// The first alarm that no rule can allow.
    pub(super) fn unfit_alarm(&self) -> Option<&Alarm> {
        let unfit = self.alarms.iter().find(|it| !it.is_wide());
        unfit.filter(|_| self.effect == Effect::Allow)
    }

    /// What a rule's sentence says of its alarms.
    pub(super) fn describe_alarms(&self) -> String {
        let all: Vec<String> = self.alarms.iter().map(Alarm::describe).collect();
        match (self.alarms.is_empty(), self.effect) {
            (true, _) => String::new(),
            (false, Effect::Allow) => {
                format!(" when nothing else is asked about than: {}", all.join("; "))
            }
            (false, Effect::Ask | Effect::Deny) => format!(" when it {}", all.join(" or ")),
        }
    }
}
