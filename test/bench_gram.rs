// SPDX-License-Identifier: GPL-3.0-or-later
//! Prints how long the gram reader takes: `cargo run --release --example bench_gram`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use agent_q_core::gram::{parse, parse_type_signature, type_signature_to_json_schema};

const RUNS: usize = 5;

fn main() {
    let signatures: Vec<String> = (0..10_000)
        .map(|index| {
            format!(
                "(::Text {{paramName:\"name{index}\", description:\"Who\"}})==>\
                 (::Int {{paramName:\"age\", optional:true}})==>(::String)"
            )
        })
        .collect();
    report("10,000 signatures parsed", || {
        for text in &signatures {
            black_box(parse_type_signature(text).is_ok());
        }
    });
    report("10,000 signatures to JSON schemas", || {
        for text in &signatures {
            black_box(type_signature_to_json_schema(text).is_ok());
        }
    });
    let megabyte = 1 << 20;
    for (name, open) in [("[", "["), ("[a|", "[a|"), ("{k:", "{k:"), ("{k:[", "{k:[")] {
        let text = open.repeat(megabyte / open.len());
        report(&format!("1 MB of nested {name} rejected"), || {
            black_box(parse(&text).is_err());
        });
    }
    let path = format!("(){}", "-->()".repeat(megabyte / 5));
    report("1 MB of one path read", || {
        black_box(parse(&path).is_ok());
    });
}

fn report(what: &str, work: impl Fn()) {
    let best = (0..RUNS).map(|_| time(&work)).min().unwrap_or_default();
    println!("{what}: {:.3} ms", best.as_secs_f64() * 1000.0);
}

fn time(work: impl Fn()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
