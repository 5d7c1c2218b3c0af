// SPDX-License-Identifier: GPL-3.0-or-later
//! Fields of ours that a host refuses, which it is not sent again. The user's own fields stay.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Mutex;

use serde_json::Value;

use super::dialect::written_body;
use super::{ChatRequest, FailureKind, ProviderError, ProviderSettings};
use crate::runtime::held;

/// What was left out of requests that were answered then: names of fields by host and model.
#[derive(Debug, Default)]
pub struct RefusedFields(Mutex<HashMap<(String, String), Vec<&'static str>>>);

/// Settings whose requests leave out some fields.
#[derive(Debug)]
pub struct FittedSettings {
    settings: ProviderSettings,
    left_out: Vec<&'static str>,
}

impl Deref for FittedSettings {
    type Target = ProviderSettings;

    fn deref(&self) -> &ProviderSettings {
        &self.settings
    }
}

impl FittedSettings {
    pub fn leave_out(&mut self, field: &'static str) {
        if !is_users(&self.settings, field) {
            self.settings.body.insert(field.to_owned(), Value::Null);
        }
        self.left_out.push(field);
    }
}

impl RefusedFields {
    /// SETTINGS without what their host refused before.
    pub fn without(&self, settings: &ProviderSettings) -> FittedSettings {
        let mut fitted = FittedSettings {
            settings: settings.clone(),
            left_out: Vec::new(),
        };
        let fields = held(&self.0).get(&key(settings)).cloned();
        for field in fields.unwrap_or_default() {
            fitted.leave_out(field);
        }
        fitted
    }

    /// Takes in that a request with SETTINGS was answered.
    pub fn note(&self, settings: &FittedSettings) {
        if !settings.left_out.is_empty() {
            held(&self.0).insert(key(settings), settings.left_out.clone());
        }
    }
}

fn key(settings: &ProviderSettings) -> (String, String) {
    (settings.base_url.clone(), settings.model.clone())
}

fn is_users(settings: &ProviderSettings, field: &str) -> bool {
    settings.body.contains_key(field) || settings.first_body.contains_key(field)
}

/// The field of ours in REQUEST with SETTINGS that ERROR refuses, if it can be left out.
pub fn refused_field(
    error: &ProviderError,
    settings: &ProviderSettings,
    request: &ChatRequest,
) -> Option<&'static str> {
    let FailureKind::Refused(400 | 422) = error.kind else {
        return None;
    };
    let sent = written_body(settings, request).fields;
    let report = error.report.as_ref()?;
    report.refused_field(|field| sent.contains_key(field) && !is_users(settings, field))
}
