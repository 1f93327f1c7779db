//! A scripted walker that explores a map and touches nothing.
//!
//! It walks to a random place among the least visited cells, along a path of free cells, and now and then looks around,
//! steps aside or walks backwards, so that its walks have all eight actions.
//!
//! It takes an action only if it could stop after it without touching anything, by turning on the spot until its
//! momentum is gone. If nothing else is safe, turning is: the action before was taken on that condition.

use std::collections::VecDeque;
use std::f32::consts::{PI, TAU};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::agent::{Action, Agent, AgentConfig};
use super::map::Map;
use super::physics;

/// Distance that the walker keeps from walls and obstacles, in cells.
const MARGIN: f32 = 0.03;
/// More distance where it comes to rest, so that it can move on from there.
const REST_MARGIN: f32 = MARGIN + 1e-3;
/// It counts as resting if the way that its momentum still carries it is shorter than this, in cells.
const REST: f32 = 5e-4;
/// Distance at which a point of its path is reached, in cells.
const REACHED: f32 = 0.3;
/// Unsafe actions that it wants in a row before it plans another path.
const PATIENCE: usize = 4;

/// A scripted walker.
#[derive(Clone, Debug)]
pub struct Walker {
    /// Points still to reach.
    path: VecDeque<[f32; 2]>,
    /// Steps spent in each cell.
    visits: Vec<u32>,
    /// An action to repeat, and how often, before it goes on along the path.
    whim: Option<(Action, usize)>,
    /// The turn by which it can stop safely.
    escape: Action,
    refused: usize,
}

impl Walker {
    /// A walker that has seen nothing of the map.
    pub fn new(map: &Map) -> Walker {
        Walker {
            path: VecDeque::new(),
            visits: vec![0; map.width() * map.height()],
            whim: None,
            escape: Action::TurnRight,
            refused: 0,
        }
    }

    /// A place where an agent can begin: drawn from the walkable cells, with room around it.
    pub fn start(map: &Map, config: &AgentConfig, generator: &mut ChaCha8Rng) -> [f32; 2] {
        let cells = map.walkable();
        random_place(map, &cells, config.radius, generator)
    }

    /// The next action of an agent that began at rest and has always done what this walker said.
    pub fn act(
        &mut self,
        map: &Map,
        agent: &Agent,
        config: &AgentConfig,
        generator: &mut ChaCha8Rng,
    ) -> Action {
        self.visits[map.index(agent.position())] += 1;
        let wanted = self.wanted(map, agent, config, generator);
        let toward = match wanted {
            Action::ForwardLeft => Action::TurnLeft,
            Action::ForwardRight => Action::TurnRight,
            _ => self.escape,
        };
        for action in [wanted, toward] {
            if let Some(escape) = safe_escape(map, &agent.glide(action, config), config) {
                if action == wanted {
                    self.refused = 0;
                } else {
                    self.refuse();
                }
                self.escape = escape;
                return action;
            }
        }
        self.refuse();
        self.escape
    }

    /// Gives up a whim that is not safe, and after some time the path.
    fn refuse(&mut self) {
        self.whim = None;
        self.refused += 1;
        if self.refused >= PATIENCE {
            self.refused = 0;
            self.path.clear();
        }
    }

    fn wanted(
        &mut self,
        map: &Map,
        agent: &Agent,
        config: &AgentConfig,
        generator: &mut ChaCha8Rng,
    ) -> Action {
        if let Some((action, left)) = self.whim {
            self.whim = (left > 1).then_some((action, left - 1));
            return action;
        }
        while let Some(&point) = self.path.front()
            && distance(point, agent.position()) < REACHED
        {
            self.path.pop_front();
            self.whim = random_whim(self.path.is_empty(), generator);
        }
        if let Some((action, _)) = self.whim {
            return action;
        }
        if self.path.is_empty() {
            self.path = self.explore(map, agent, config, generator);
        }
        match self.path.front() {
            Some(&point) => steer(agent, point, config),
            None => self.escape,
        }
    }

    /// A path to a place in one of the cells that were visited least.
    fn explore(
        &self,
        map: &Map,
        agent: &Agent,
        config: &AgentConfig,
        generator: &mut ChaCha8Rng,
    ) -> VecDeque<[f32; 2]> {
        let mut cells = map.walkable();
        let here = map.index(agent.position());
        cells.retain(|&cell| cell != here);
        let fewest = cells
            .iter()
            .map(|&cell| self.visits[cell])
            .min()
            .unwrap_or(0);
        cells.retain(|&cell| self.visits[cell] == fewest);
        if cells.is_empty() {
            return VecDeque::new();
        }
        let goal = random_place(map, &cells, config.radius, generator);
        shortened(map, agent.position(), path(map, here, goal), config.radius)
    }
}

/// A place in one of the cells: around its centre if that leaves a disc of this radius free, else the centre.
fn random_place(map: &Map, cells: &[usize], radius: f32, generator: &mut ChaCha8Rng) -> [f32; 2] {
    let centre = map.centre(cells[generator.random_range(0..cells.len())]);
    let place = centre.map(|middle| middle + generator.random_range(-0.3..0.3));
    if physics::is_free(map, place, radius + 0.1) {
        place
    } else {
        centre
    }
}

/// Something to do at a point of the path: look around, step aside, walk backwards, or nothing.
fn random_whim(at_end: bool, generator: &mut ChaCha8Rng) -> Option<(Action, usize)> {
    use Action::{Back, StrafeLeft, StrafeRight, TurnLeft, TurnRight};
    let chance: f32 = generator.random();
    let (actions, steps): (&[Action], _) = if at_end && chance < 0.25 {
        (&[TurnLeft, TurnRight], 4..28)
    } else if chance < 0.85 {
        (&[StrafeLeft, StrafeRight, Back], 4..13)
    } else {
        return None;
    };
    let action = actions[generator.random_range(0..actions.len())];
    Some((action, generator.random_range(steps)))
}

/// The action that leads to a point: turns on the spot if it is far aside, else walks and corrects.
fn steer(agent: &Agent, point: [f32; 2], config: &AgentConfig) -> Action {
    let [x, y, heading] = agent.place;
    let aim = (point[1] - y).atan2(point[0] - x);
    // Where the agent will look once its turning has died out.
    let drift = agent.velocity[2] * config.momentum / (1.0 - config.momentum);
    let aside = (aim - heading - drift + PI).rem_euclid(TAU) - PI;
    let step = TAU / config.period;
    if aside.abs() < 0.6 * step {
        return Action::Forward;
    }
    match (aside > 0.0, aside.abs() > 0.9) {
        (true, true) => Action::TurnRight,
        (true, false) => Action::ForwardRight,
        (false, true) => Action::TurnLeft,
        (false, false) => Action::ForwardLeft,
    }
}

/// The turn by which an agent in motion can stop without touching anything, if there is one.
fn safe_escape(map: &Map, agent: &Agent, config: &AgentConfig) -> Option<Action> {
    if !physics::is_free(map, agent.position(), config.radius + MARGIN) {
        return None;
    }
    // The length of the whole way to rest, whichever way the agent turns.
    let way = |agent: &Agent| {
        let speed = agent.velocity[0].hypot(agent.velocity[1]);
        speed * config.momentum / (1.0 - config.momentum)
    };
    if physics::is_free(
        map,
        agent.position(),
        config.radius + REST_MARGIN + way(agent),
    ) {
        return Some(Action::TurnRight);
    }
    [Action::TurnLeft, Action::TurnRight]
        .into_iter()
        .find(|&turn| {
            let mut agent = *agent;
            while way(&agent) > REST {
                agent = agent.glide(turn, config);
                if !physics::is_free(map, agent.position(), config.radius + MARGIN) {
                    return false;
                }
            }
            physics::is_free(map, agent.position(), config.radius + REST_MARGIN)
        })
}

/// The shortest way through walkable cells from a cell to a place, as centres of cells and the place; empty if there
/// is none.
fn path(map: &Map, from: usize, goal: [f32; 2]) -> Vec<[f32; 2]> {
    let walkable = map.walkable();
    let target = map.index(goal);
    let mut before = vec![None; map.width() * map.height()];
    before[from] = Some(from);
    let mut queue = VecDeque::from([from]);
    while let Some(cell) = queue.pop_front() {
        if cell == target {
            break;
        }
        let neighbours = [cell - 1, cell + 1, cell - map.width(), cell + map.width()];
        for neighbour in neighbours {
            if before[neighbour].is_none() && walkable.binary_search(&neighbour).is_ok() {
                before[neighbour] = Some(cell);
                queue.push_back(neighbour);
            }
        }
    }
    let mut points = vec![goal];
    let mut cell = target;
    while let Some(previous) = before[cell]
        && previous != cell
    {
        // The agent may stand at the edge of an obstacle's cell, but the centre is not a place to go to.
        if walkable.binary_search(&previous).is_ok() {
            points.push(map.centre(previous));
        }
        cell = previous;
    }
    if cell != from {
        return Vec::new();
    }
    points.reverse();
    points
}

/// A path without the points that can be left out because the way past them is free.
fn shortened(map: &Map, from: [f32; 2], points: Vec<[f32; 2]>, radius: f32) -> VecDeque<[f32; 2]> {
    let mut kept = VecDeque::new();
    let mut here = from;
    let mut next = 0;
    while next < points.len() {
        let farthest = (next..points.len())
            .rev()
            .find(|&point| way_is_free(map, here, points[point], radius + 0.12))
            .unwrap_or(next);
        here = points[farthest];
        kept.push_back(here);
        next = farthest + 1;
    }
    kept
}

/// Whether a disc touches nothing on a straight line.
fn way_is_free(map: &Map, from: [f32; 2], to: [f32; 2], radius: f32) -> bool {
    let steps = (distance(from, to) / 0.1).ceil() as usize;
    (0..=steps).all(|step| {
        let share = step as f32 / steps.max(1) as f32;
        let point = [0, 1].map(|axis| from[axis] + share * (to[axis] - from[axis]));
        physics::is_free(map, point, radius)
    })
}

fn distance(first: [f32; 2], second: [f32; 2]) -> f32 {
    (first[0] - second[0]).hypot(first[1] - second[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use crate::navigation::labyrinth::MapConfig;

    /// What a walk of `time` steps did.
    struct Trace {
        touched: usize,
        counts: [usize; 8],
        /// Fraction of the walkable cells that were visited.
        visited: f32,
        length: f32,
        turned: f32,
    }

    fn walk(config: &MapConfig, agent_config: &AgentConfig, seed: u64, time: usize) -> Trace {
        let mut generator = Stream::new(seed, "test").at(0);
        let map = Map::new(config, &mut generator).expect("in range");
        let mut walker = Walker::new(&map);
        let start = Walker::start(&map, agent_config, &mut generator);
        let mut agent = Agent::new(start, generator.random_range(0.0..TAU));
        let mut trace = Trace {
            touched: 0,
            counts: [0; 8],
            visited: 0.0,
            length: 0.0,
            turned: 0.0,
        };
        for _ in 0..time {
            let action = walker.act(&map, &agent, agent_config, &mut generator);
            let moved = agent.step(action, agent_config, &map);
            trace.touched += usize::from(moved.blocked);
            trace.counts[action as usize] += 1;
            trace.length += moved.displacement[0].hypot(moved.displacement[1]);
            trace.turned += moved.displacement[2].abs();
        }
        let cells = map.walkable();
        let visited = cells
            .iter()
            .filter(|&&cell| walker.visits[cell] > 0)
            .count();
        trace.visited = visited as f32 / cells.len() as f32;
        trace
    }

    #[test]
    fn walks_touch_nothing() {
        let rooms = MapConfig {
            rooms: 3,
            ..MapConfig::default()
        };
        let crowded = MapConfig {
            smallest: 3,
            objects: 8,
            ..MapConfig::default()
        };
        let quick = AgentConfig {
            speed: 0.4,
            momentum: 0.9,
            radius: 0.3,
            ..AgentConfig::default()
        };
        for seed in 0..300 {
            for (map, time) in [
                (MapConfig::default(), 300),
                (rooms.clone(), 450),
                (crowded.clone(), 300),
            ] {
                assert_eq!(walk(&map, &AgentConfig::default(), seed, time).touched, 0);
            }
            assert_eq!(walk(&crowded, &quick, seed, 300).touched, 0);
        }
    }

    #[test]
    fn walks_explore_with_all_actions() {
        let mut counts = [0; 8];
        let (mut visited, mut length, mut turned) = (0.0, 0.0, 0.0);
        let walks = 100;
        for seed in 0..walks {
            let trace = walk(&MapConfig::default(), &AgentConfig::default(), seed, 300);
            for (sum, count) in counts.iter_mut().zip(trace.counts) {
                *sum += count;
            }
            visited += trace.visited / walks as f32;
            length += trace.length / walks as f32;
            turned += trace.turned / walks as f32;
        }
        let total: usize = counts.iter().sum();
        assert!(counts.iter().all(|&count| count * 50 > total), "{counts:?}");
        assert!(visited > 0.7, "{visited}");
        // Walks at more than half of the largest speed on average, and turns around several times.
        assert!(length > 0.5 * 0.15 * 300.0, "{length}");
        assert!(turned > 3.0 * TAU, "{turned}");
    }

    #[test]
    fn walks_in_several_rooms_leave_the_first_room() {
        let config = MapConfig {
            rooms: 3,
            ..MapConfig::default()
        };
        let visited: f32 = (0..30)
            .map(|seed| walk(&config, &AgentConfig::default(), seed, 450).visited / 30.0)
            .sum();
        assert!(visited > 0.4, "{visited}");
    }

    #[test]
    fn a_path_leads_around_obstacles() {
        let mut map = Map::new(
            &MapConfig {
                smallest: 5,
                largest: 5,
                objects: 1,
                ..MapConfig::default()
            },
            &mut Stream::new(1, "test").at(0),
        )
        .expect("in range");
        map.objects[0].place = [3.5, 3.5];
        let points = path(&map, map.index([1.5, 3.5]), [5.5, 3.5]);
        assert_eq!(points.first(), Some(&[1.5, 3.5]));
        assert_eq!(points.last(), Some(&[5.5, 3.5]));
        assert_eq!(points.len(), 7);
        assert!(!points.contains(&[3.5, 3.5]));
        let short = shortened(&map, [1.5, 3.5], points, 0.2);
        assert!(short.len() < 5 && short.len() > 1, "{short:?}");
    }
}
