// SPDX-License-Identifier: GPL-3.0-or-later
//! How many connections over HTTP are served at once. Anybody on this machine can connect and send nothing,
//! so when all seats are taken, a new connection gets that of the one that has been idle for longest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use crate::runtime::held;

/// A number of seats.
pub struct Seats {
    most: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those of which no request is being answered, by their turns.
    waiting: BTreeMap<u64, CancellationToken>,
    /// How many are being answered.
    answered: usize,
    turns: u64,
}

/// The seat of one connection.
pub struct Seat {
    seats: Arc<Seats>,
    /// The turn of the connection among the waiting, or the last that it had.
    turn: Mutex<u64>,
    /// Cancelled when the seat goes to another.
    pub over: CancellationToken,
}

/// A request of a connection is being answered, so that its seat is its own.
pub struct Answering<'s>(&'s Seat);

impl Seats {
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            state: Mutex::default(),
        })
    }

    /// A seat, which OVER ends; none while all are being answered.
    #[must_use]
    pub fn take(self: &Arc<Self>, over: CancellationToken) -> Option<Seat> {
        let mut state = held(&self.state);
        if state.waiting.len() + state.answered >= self.most {
            let (_, oldest) = state.waiting.pop_first()?;
            oldest.cancel();
        }
        let turn = state.wait(over.clone());
        Some(Seat {
            seats: Arc::clone(self),
            turn: Mutex::new(turn),
            over,
        })
    }
}

impl State {
    fn wait(&mut self, over: CancellationToken) -> u64 {
        self.turns += 1;
        self.waiting.insert(self.turns, over);
        self.turns
    }
}

impl Seat {
    /// A whole head came. None when the seat is another's by now.
    #[must_use]
    pub fn answering(&self) -> Option<Answering<'_>> {
        let mut state = held(&self.seats.state);
        state.waiting.remove(&*held(&self.turn))?;
        state.answered += 1;
        Some(Answering(self))
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        let Seat { seats, turn, over } = self.0;
        let mut state = held(&seats.state);
        state.answered -= 1;
        *held(turn) = state.wait(over.clone());
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        held(&self.seats.state).waiting.remove(&*held(&self.turn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_that_is_idle_for_longest_makes_room() {
        let seats = Seats::new(3);
        let take = || seats.take(CancellationToken::new());
        let taken: Vec<Seat> = (0..3).filter_map(|_| take()).collect();
        let over = || taken.iter().map(|seat| seat.over.is_cancelled());
        let first = taken[0].answering();
        assert!(first.is_some());
        let fourth = take();
        assert!(over().eq([false, true, false]));
        assert!(taken[1].answering().is_none());
        // After its answer the first is idle for less long than the third.
        drop(first);
        let fifth = take();
        assert!(over().eq([false, true, true]));
        // Nobody makes room in the middle of an answer.
        let answers = [&taken[0]].into_iter().chain(&fourth).chain(&fifth);
        let answers: Vec<_> = answers.map(Seat::answering).collect();
        assert!(answers.iter().all(Option::is_some));
        assert!(take().is_none());
        // A connection that ends does.
        drop(answers);
        drop(fourth);
        assert!(take().is_some());
        assert!(!taken[0].over.is_cancelled());
    }
}
