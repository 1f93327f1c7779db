//! A scripted walker that explores a map and touches nothing.
//!
//! It walks to a random place among the least visited cells, along a path of free cells, and now and then looks around,
//! steps aside or walks backwards, so that its walks have all eight actions.
//!
//! It takes an action only if it could stop after it without touching anything, by turning on the spot until its
//! momentum is gone. If nothing else is safe, turning is: the action before was taken on that condition.

use std::collections::{BTreeMap, VecDeque};
use std::f32::consts::{PI, TAU};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::agent::{Action, Agent, AgentConfig};
use super::map::{Cell, Map};
use super::physics;

/// Distance that the walker keeps from walls and obstacles, in cells.
const MARGIN: f32 = 0.1;
/// More distance where it comes to rest, so that it can move on from there.
const REST_MARGIN: f32 = MARGIN + 1e-3;
/// It counts as resting if the way that its momentum still carries it is shorter than this, in cells.
const REST: f32 = 5e-4;
/// Distance from walls and obstacles that the places have to which it goes, if their cell allows it, in cells.
const ROOM: f32 = 0.25;
/// Distance of a lookout from walls and obstacles, in cells.
const VIEW: f32 = 1.0;
/// Distance at which a point of its path is reached, in cells.
const REACHED: f32 = 0.3;
/// Unsafe actions that it wants before it plans another path to its goal.
const PATIENCE: usize = 5;
/// Unsafe actions that it wants before it gives up its goal.
const LAST_PATIENCE: usize = 60;

/// A scripted walker.
#[derive(Clone, Debug)]
pub struct Walker {
    goal: Option<[f32; 2]>,
    /// Points still to reach on the way to the goal.
    path: VecDeque<[f32; 2]>,
    /// Steps spent in each cell.
    visits: Vec<u32>,
    /// An action to repeat, and how often, before it goes on along the path.
    whim: Option<(Action, usize)>,
    /// The turn by which it can stop safely.
    escape: Action,
    /// Unsafe actions that it wanted since it chose its goal.
    refused: usize,
}

impl Walker {
    /// A walker that has seen nothing of the map.
    pub fn new(map: &Map) -> Walker {
        Walker {
            goal: None,
            path: VecDeque::new(),
            visits: vec![0; map.width() * map.height()],
            whim: None,
            escape: Action::TurnRight,
            refused: 0,
        }
    }

    /// A place where an agent can begin: drawn from the walkable cells, with room around it.
    pub fn start(map: &Map, config: &AgentConfig, generator: &mut ChaCha8Rng) -> [f32; 2] {
        random_place(map, &map.walkable(), config.radius, generator)
    }

    /// A place to look around from: away from walls and obstacles, if the map has such a place.
    pub fn lookout(map: &Map, config: &AgentConfig, generator: &mut ChaCha8Rng) -> [f32; 2] {
        let mut cells = map.walkable();
        let open = |cell: usize| physics::is_free(map, map.centre(cell), VIEW);
        if cells.iter().any(|&cell| open(cell)) {
            cells.retain(|&cell| open(cell));
        }
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
        let cautious = match wanted {
            Action::Forward => Action::Back,
            Action::ForwardLeft => Action::TurnLeft,
            Action::ForwardRight => Action::TurnRight,
            _ => self.escape,
        };
        for action in [wanted, cautious] {
            if let Some(escape) = safe_escape(map, &agent.glide(action, config), config) {
                self.escape = escape;
                return action;
            }
            if action == wanted {
                self.refuse();
            }
        }
        self.escape
    }

    /// Gives up a whim that is not safe, after some time the path, and in the end the goal.
    fn refuse(&mut self) {
        self.whim = None;
        self.refused += 1;
        if self.refused.is_multiple_of(PATIENCE) {
            self.path.clear();
        }
        if self.refused >= LAST_PATIENCE {
            self.goal = None;
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
            let at_goal = self.path.is_empty();
            if at_goal {
                self.goal = None;
            }
            if let Some((action, steps)) = random_whim(at_goal, generator) {
                // The next path begins where the whim ends.
                self.path.clear();
                self.whim = Some((action, steps - 1));
                return action;
            }
        }
        if self.path.is_empty() {
            let goal = self
                .goal
                .or_else(|| self.explore(map, agent, config, generator));
            self.goal = goal;
            self.path = goal.map_or_else(VecDeque::new, |goal| {
                let points = path(map, first_cell(map, agent.position(), config.radius), goal);
                shortened(map, agent.position(), points, config.radius)
            });
        }
        match self.path.front() {
            Some(&point) => steer(agent, point, config),
            None => self.escape,
        }
    }

    /// A place in one of the cells that were visited least, every other time in the room that was visited least;
    /// `None` if there is no other cell.
    fn explore(
        &mut self,
        map: &Map,
        agent: &Agent,
        config: &AgentConfig,
        generator: &mut ChaCha8Rng,
    ) -> Option<[f32; 2]> {
        self.refused = 0;
        let mut cells = map.walkable();
        let here = map.index(agent.position());
        cells.retain(|&cell| cell != here);
        if generator.random() {
            let room = self.least_visited_room(map, &cells);
            cells.retain(|&index| Some(map.cell_at(index)) == room);
        }
        let fewest = cells
            .iter()
            .map(|&cell| self.visits[cell])
            .min()
            .unwrap_or(0);
        cells.retain(|&cell| self.visits[cell] == fewest);
        (!cells.is_empty()).then(|| random_place(map, &cells, config.radius, generator))
    }

    /// The room of these cells with the fewest visits for each of its cells.
    fn least_visited_room(&self, map: &Map, cells: &[usize]) -> Option<Cell> {
        let mut rooms: BTreeMap<u8, (u32, u32)> = BTreeMap::new();
        for &cell in cells {
            if let Cell::Room(room) = map.cell_at(cell) {
                let (visits, size) = rooms.entry(room).or_default();
                *visits += self.visits[cell];
                *size += 1;
            }
        }
        let share = |(visits, size): &(u32, u32)| f64::from(*visits) / f64::from(*size);
        let least = rooms
            .iter()
            .min_by(|(_, first), (_, second)| share(first).total_cmp(&share(second)));
        least.map(|(room, _)| Cell::Room(*room))
    }
}

/// A place in one of the cells: around its centre if that leaves a disc of this radius free, else the centre.
fn random_place(map: &Map, cells: &[usize], radius: f32, generator: &mut ChaCha8Rng) -> [f32; 2] {
    let centre = map.centre(cells[generator.random_range(0..cells.len())]);
    let place = centre.map(|middle| middle + generator.random_range(-0.3..0.3));
    if physics::is_free(map, place, radius + ROOM) {
        place
    } else {
        centre
    }
}

/// An action to repeat some times at a point of the path: look around, step aside or walk backwards; or nothing.
fn random_whim(at_goal: bool, generator: &mut ChaCha8Rng) -> Option<(Action, usize)> {
    use Action::{Back, StrafeLeft, StrafeRight, TurnLeft, TurnRight};
    let chance: f32 = generator.random();
    let (actions, steps): (&[Action], _) = if at_goal && chance < 0.25 {
        (&[TurnLeft, TurnRight], 4..28)
    } else if chance < if at_goal { 0.85 } else { 0.25 } {
        (
            &[StrafeLeft, StrafeLeft, StrafeRight, StrafeRight, Back],
            4..13,
        )
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
    // A near point must lie ahead, or the agent would walk around it in a circle.
    let circle = config.speed / step;
    let near = distance(point, agent.position()) < 2.0 * circle;
    match (aside > 0.0, aside.abs() > if near { 0.3 } else { 0.9 }) {
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

/// The walkable cell with the nearest centre that a disc can reach in a straight line; if there is none, the nearest.
fn first_cell(map: &Map, place: [f32; 2], radius: f32) -> usize {
    let mut cells = map.walkable();
    let away = |cell: usize| distance(map.centre(cell), place);
    cells.sort_by(|&first, &second| away(first).total_cmp(&away(second)));
    let reachable = |cell: &&usize| way_is_free(map, place, map.centre(**cell), radius + MARGIN);
    let first = cells.iter().find(reachable).or(cells.first());
    *first.expect("a map has walkable cells")
}

/// The shortest way through walkable cells from one of them to a place, as centres of cells and the place; empty if
/// there is none.
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
        points.push(map.centre(previous));
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
            .find(|&point| way_is_free(map, here, points[point], radius + 1.5 * MARGIN))
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
        /// How often another room was entered than the last.
        changes: usize,
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
            changes: 0,
        };
        let mut last_room = None;
        for _ in 0..time {
            let action = walker.act(&map, &agent, agent_config, &mut generator);
            let moved = agent.step(action, agent_config, &map);
            trace.touched += usize::from(moved.blocked);
            trace.counts[action as usize] += 1;
            trace.length += moved.displacement[0].hypot(moved.displacement[1]);
            trace.turned += moved.displacement[2].abs();
            let [x, y] = agent.position().map(|value| value as isize);
            let room = map.cell(x, y);
            if room != Cell::Corridor && Some(room) != last_room {
                trace.changes += usize::from(last_room.is_some());
                last_room = Some(room);
            }
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
        assert!(length > 0.5 * 0.2 * 300.0, "{length}");
        assert!(turned > 3.0 * TAU, "{turned}");
    }

    #[test]
    fn walks_in_two_rooms_go_from_one_to_the_other() {
        let config = MapConfig {
            rooms: 2,
            ..MapConfig::default()
        };
        let walks = (0..60).map(|seed| walk(&config, &AgentConfig::default(), seed, 450));
        let changes: Vec<usize> = walks.map(|trace| trace.changes).collect();
        let stayed = changes.iter().filter(|&&changes| changes == 0).count();
        assert!(stayed <= 3, "{changes:?}");
        assert!(changes.iter().sum::<usize>() >= 120, "{changes:?}");
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
