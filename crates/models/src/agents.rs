//! Agents: a torso that sees, a recurrent core that remembers, heads that act and judge, and what they learn from
//! (Santoro et al. 2018, rmc, section 4.2 and appendix A.3; Espeholt et al. 2018, IMPALA).
//!
//! | file | contents |
//! | --- | --- |
//! | `agent.rs` | [`Agent`], the model |
//! | `torso.rs` | [`Torso`], from what is seen to the core's input |
//! | `returns.rs` | targets of the values and advantages of the actions: V-trace, and generalised advantages |
//! | `objective.rs` | the loss: policy gradient or PPO's clipped objective, values, entropy |

mod agent;
mod objective;
mod returns;
mod torso;

pub use agent::{Acted, Agent, AgentConfig, AgentPrepared, Observed, Unrolled};
pub use objective::{AgentLoss, Costs, Objective, Transitions, objective};
pub use returns::{Returns, Trajectories, generalised_advantages, v_trace};
pub use torso::{Torso, TorsoConfig};
