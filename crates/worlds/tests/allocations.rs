//! A step within an episode takes no memory from the heap.

use allocation_counter::measure;
use mnemora_worlds::{EnvironmentKind, Stream, Vectorised};
use rand::RngExt;
use serde_json::{Value, json};

/// Steps with random actions in 8 environments: how many there were in which no episode ended, and what they allocated; the
/// same for those in which one ended and the next began.
fn allocations(name: &str, settings: &Value) -> [(u64, u64); 2] {
    let kind = EnvironmentKind::named(name).expect("is in the table");
    let all = (0..8).map(|_| (kind.build)(settings));
    let all = all.collect::<Result<_, _>>().expect("in range");
    let mut all = Vectorised::new(all, 1).expect("can begin");
    let count = all.spec().actions.len();
    let mut random = Stream::new(1, "random actions").at(0);
    let mut found = [(0, 0); 2];
    for step in 0..4000 {
        let actions: [usize; 8] = std::array::from_fn(|_| random.random_range(0..count));
        let taken = measure(|| all.step(&actions).expect("runs"));
        // Room that is kept grows at first.
        if step < 1000 {
            continue;
        }
        let ended = all.lasts().contains(&true);
        let (steps, allocated) = &mut found[usize::from(ended)];
        *steps += 1;
        *allocated += taken.count_total;
    }
    found
}

#[test]
fn a_step_within_an_episode_allocates_nothing() {
    for (name, settings) in [
        ("mini-pacman", json!({})),
        ("mini-pacman", json!({"viewport": 0})),
        ("box-world", json!({})),
        ("box-world", json!({"viewport": 0})),
        ("t-maze", json!({})),
        ("repeat-previous", json!({})),
        ("concentration", json!({})),
        ("labyrinth", json!({"length": 500})),
    ] {
        let [(steps, allocated), (ends, at_ends)] = allocations(name, &settings);
        println!(
            "{name} {settings}: {allocated} in {steps} steps, {at_ends} in {ends} with an end"
        );
        assert!(steps > 0 && ends > 0, "{name}: {steps} steps, {ends} ends");
        assert_eq!(allocated, 0, "{name} {settings}: {steps} steps");
    }
}
