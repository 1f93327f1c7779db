//! Free energies of whole recordings.

use super::{Source, upload};
use crate::{
    Evaluation, Experiment, LabError,
    evaluate::{
        RecordingScore, Rounds, data_stream, mean_and_stderr, particle_stream, particles_for,
    },
    particles::ParticleScore,
    strategy::AtWork,
    weights::host,
};
use burn::module::Module;
use mnemora_models::FilteringModel;
use mnemora_worlds::{Part, Stream};

/// Scores the recordings of a part; a random choice of `batches` batches if there are more.
pub(super) fn evaluate<M: FilteringModel + Module>(
    experiment: &Experiment,
    at_work: &AtWork<M>,
    source: &Source,
    part: Part,
    step: u64,
    batches: u64,
    purpose: &str,
) -> Result<Evaluation, LabError> {
    let window = experiment.task.window;
    let size = experiment.evaluation.batch;
    let most = usize::try_from(batches)
        .unwrap_or(usize::MAX)
        .saturating_mul(size);
    let draws = data_stream(experiment.seed, purpose);
    let mut rows = draws.choose(0, source.count(part), most);
    rows.retain(|row| source.steps(part, *row, window) > 0);
    if rows.is_empty() {
        return Err(LabError::Configuration(format!(
            "{} has no recordings to evaluate on, neither a test nor a validation part",
            source.words()
        )));
    }
    // About equally long ones together; only equally long ones where beliefs see what comes after.
    let steps = |row: &usize| source.steps(part, *row, window);
    rows.sort_by_key(steps);
    let alone = at_work.model().sees_ahead();
    let groups = rows.chunk_by(|a, b| !alone || steps(a) == steps(b));
    let batches = groups.flat_map(|group| group.chunks(size));
    let samples = Stream::new(experiment.seed, &format!("{purpose} noise"));
    let particle_samples = particle_stream(experiment.seed, purpose);
    let mut scores = Vec::new();
    let mut rounds = Rounds::default();
    let mut particles = particles_for(experiment, purpose);
    let device = at_work.model().devices().remove(0);
    for (index, rows) in batches.enumerate() {
        let index = index as u64;
        let batch = source.whole(part, rows, window)?;
        let observations = upload(&batch, &device);
        particles.add(
            at_work,
            &observations,
            None,
            &batch.lengths,
            &particle_samples,
        );
        let (filtered, energies) = at_work.filter(observations, None, &samples, index);
        rounds.add(&energies, Some(&batch.lengths));
        let reconstruction = host(filtered.reconstruction.into_data());
        let kl = host(filtered.kl.into_data());
        for (row, steps) in batch.lengths.iter().enumerate() {
            let sum = |values: &[f32]| -> f64 {
                let of_row = values.iter().skip(row).step_by(batch.batch);
                of_row.take(*steps).map(|v| f64::from(*v)).sum()
            };
            scores.push(Score {
                steps: *steps,
                reconstruction: sum(&reconstruction),
                kl: sum(&kl),
            });
        }
    }
    Ok(summary(step, part, &scores, rounds, particles.finish()))
}

/// Of one recording, in nats.
struct Score {
    steps: usize,
    reconstruction: f64,
    kl: f64,
}

impl Score {
    fn free_energy(&self) -> f64 {
        self.kl - self.reconstruction
    }
}

fn summary(
    step: u64,
    part: Part,
    scores: &[Score],
    rounds: Rounds,
    particles: Option<ParticleScore>,
) -> Evaluation {
    let bounds: Vec<f64> = scores.iter().map(|score| -score.free_energy()).collect();
    let (bound, bound_stderr) = mean_and_stderr(&bounds);
    let steps: usize = scores.iter().map(|score| score.steps).sum();
    let count = scores.len() as f64;
    let total = |of: &dyn Fn(&Score) -> f64| scores.iter().map(of).sum::<f64>();
    let free_energy = total(&Score::free_energy) / steps as f64;
    // Of a ratio of sums over recordings: by what each recording's sum differs from the mean's.
    let residuals: Vec<f64> = scores
        .iter()
        .map(|score| score.free_energy() - free_energy * score.steps as f64)
        .collect();
    let (_, stderr) = mean_and_stderr(&residuals);
    let each = |score: &Score| score.free_energy() / score.steps as f64;
    Evaluation {
        step,
        sequences: scores.len(),
        bound,
        bound_stderr,
        reconstruction: Some(total(&|score| score.reconstruction) / count),
        kl: Some(total(&|score| score.kl) / count),
        energy_by_round: rounds.finish(),
        recordings: Some(RecordingScore {
            part: part.to_string(),
            steps,
            free_energy,
            free_energy_stderr: stderr * count / steps as f64,
            free_energy_of_recordings: total(&each) / count,
            kl: total(&|score| score.kl) / steps as f64,
            particles,
        }),
        ..Evaluation::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{evaluate::EVALUATION, load_experiment, recordings::learner};
    use burn::tensor::Device;

    /// The draws of a recording are its own: five of them by batches of two, the last one smaller.
    #[test]
    fn particles_do_not_depend_on_batches() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("waves.csv");
        let mut rows = String::from("sequence,split,x,y\n");
        for number in 0..8 {
            let part = if number < 3 { "train" } else { "test" };
            for t in 0..6 {
                let x = f64::from(t + number).sin();
                rows.push_str(&format!("{number},{part},{x},{t}\n"));
            }
        }
        std::fs::write(&table, rows).unwrap();
        let bounds = |batch: usize| {
            let batch = format!("evaluation.batch={batch}");
            let overrides = [
                "task.name=own",
                "task.window=4",
                "filtering.strategy=direct",
                "model.name=srnn",
                "model.likelihood=normal",
                "model.latent=3",
                "network.srnn.hidden=6",
                "network.srnn.units=5",
                "evaluation.particles=4",
                batch.as_str(),
            ];
            let overrides = overrides.map(str::to_owned);
            let mut experiment = load_experiment("jsb-chorales-small", &overrides).unwrap();
            let source = Source::find(&mut experiment, Some(&table)).unwrap();
            let learner = learner(&experiment, source, &Device::default()).unwrap();
            let found = learner.evaluate(&experiment, 0, 100, EVALUATION).unwrap();
            let found = found.recordings.unwrap();
            assert_eq!(found.steps, 30);
            let found = found.particles.unwrap();
            [found.importance_weighted, found.particle_filter]
        };
        let alone = bounds(1);
        for batch in [2, 3, 5] {
            for (found, expected) in bounds(batch).into_iter().zip(alone) {
                assert!(
                    (found - expected).abs() < 1e-6 * expected.abs(),
                    "by {batch}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn a_step_of_a_long_recording_counts_as_one_of_a_short_one() {
        let score = |steps, reconstruction, kl| Score {
            steps,
            reconstruction,
            kl,
        };
        let scores = [score(10, -30.0, 10.0), score(30, -60.0, 0.0)];
        let found = summary(7, Part::Test, &scores, Rounds::default(), None);
        let of = found.recordings.unwrap();
        assert_eq!(of.free_energy, 100.0 / 40.0);
        assert_eq!(of.free_energy_of_recordings, (4.0 + 2.0) / 2.0);
        assert_eq!(of.kl, 0.25);
        assert_eq!(found.bound, -50.0);
        // Residuals are 15 and -15.
        let expected = 15.0 * 2.0_f64.sqrt() / 2.0_f64.sqrt() * 2.0 / 40.0;
        assert!((of.free_energy_stderr - expected).abs() < 1e-12);
        assert_eq!(of.particles, None);
    }
}
