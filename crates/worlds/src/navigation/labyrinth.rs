//! A labyrinth: procedurally generated rooms and corridors, seen through the eyes of an agent that walks in them
//! (GTM-SM, section 4.2; GTMM, section 5.7).
//!
//! | file | what it holds |
//! | --- | --- |
//! | `map.rs` | rooms, corridors, walls and objects on a grid of cells |
//! | `textures.rs`, `scenery.rs` | what walls, objects, floors and the sky look like |
//! | `view.rs` | size and angle of a frame, the projection, the light |
//! | `ray.rs` | a ray, and the wall that it meets |
//! | `billboard.rs` | an object as a flat picture |
//! | `renderer.rs` | a frame from a place, column by column |
//! | `plan.rs` | the map from above |
//! | `physics.rs` | walls and obstacles that stop a disc |
//! | `agent.rs` | eight actions, momentum, displacements |
//! | `walker.rs` | a script that explores a map and touches nothing |
//! | `walks.rs` | batches of walks to learn from: rotations on the spot, walks in a room, in several rooms |
//! | `environment.rs` | the labyrinth as an [`Environment`](crate::Environment), with goals |
//!
//! ```
//! use mnemora_worlds::labyrinth::{LabyrinthTask, LabyrinthWalks};
//! use mnemora_worlds::{Navigation, Split, Stream};
//!
//! let task = LabyrinthTask::Walking;
//! let walking = LabyrinthWalks::new(task, task.config())?;
//! let walks = walking.walks(Split::Train, &Stream::new(1, "data"), 0, 2, task.time());
//! assert_eq!(walks.frames.len(), 2 * 300 * 3 * 32 * 32);
//! # Ok::<(), mnemora_worlds::Error>(())
//! ```

mod agent;
mod billboard;
mod environment;
mod map;
mod physics;
mod plan;
mod ray;
mod renderer;
mod scenery;
mod textures;
mod view;
mod walker;
mod walks;

pub use self::agent::{ACTIONS, Action, Agent, AgentConfig, Moved};
pub use self::environment::{Labyrinth, LabyrinthConfig};
pub use self::map::{Cell, Map, MapConfig, Object};
pub use self::physics::{is_free, slide};
pub use self::plan::Plan;
pub use self::renderer::Renderer;
pub use self::view::ViewConfig;
pub use self::walker::Walker;
pub use self::walks::{LabyrinthTask, LabyrinthWalks, WalksConfig};
