-- The physical limit: what PostgreSQL alone needs to write the rows of n complete jobs, set by set, without a client,
-- without reading anything back and without deciding anything. Inserts and updates, and the commits between them, are
-- those of the engine working in batches of n; the slots of the agent lane, which are no rows of a job, are left out.
CREATE OR REPLACE PROCEDURE bench_batch(n integer) LANGUAGE plpgsql AS $procedure$
DECLARE
  scope constant text := 'limit';
  sha constant text := repeat('a', 64);
  space constant text := 'bench';
  picture constant halfvec := array_fill(0.036, ARRAY[768])::real[]::vector::halfvec;
  words constant halfvec := array_fill(0.044, ARRAY[512])::real[]::vector::halfvec;
  kinds constant text[] := ARRAY['visual_embedding_generation', 'meme_context_generation', 'text_embedding_generation'];
  stages constant text[] := ARRAY['visual', 'agent', 'text_embedding'];
  jobs uuid[]; memes uuid[]; work uuid[]; grants uuid[];
  stage_no integer;
BEGIN
  SELECT array_agg(gen_random_uuid()), array_agg(gen_random_uuid()), array_agg(gen_random_uuid())
    INTO jobs, memes, grants FROM generate_series(1, n);
  INSERT INTO memes (scope_id, meme_id, filename, image_sha256, media_type, byte_size, width, height, frames,
                     storage_key, created_at, updated_at)
    SELECT scope, m, 'bench.png', md5(m::text) || md5(m::text), 'image/png', 1, 1, 1, 1, 'key', now(), now()
    FROM unnest(memes) m;
  COMMIT;
  INSERT INTO image_processing_jobs (scope_id, job_id, meme_id, revision, image_sha256, reverse_image_policy,
                                     config_fingerprint, status, created_at, updated_at, claim_generation)
    SELECT scope, j, m, 1, sha, 'forbid', sha, 'running', now(), now(), 0 FROM unnest(jobs, memes) u(j, m);
  FOR stage_no IN 1..3 LOOP
    -- the stage is opened: at submission by a queued task, afterwards by one that is claimed where it is opened
    SELECT array_agg(gen_random_uuid()) INTO work FROM generate_series(1, n);
    INSERT INTO tasks (scope_id, task_id, task_type, status, job_id, meme_id, image_sha256, config_fingerprint,
                       reverse_image_policy, grant_id, claim_generation, lease_owner, lease_expires_at, available_at,
                       failures, lease_losses, created_at, started_at)
      SELECT scope, w, kinds[stage_no], CASE stage_no WHEN 1 THEN 'queued' ELSE 'running' END, j, m, sha, sha, 'forbid',
             CASE stage_no WHEN 2 THEN g END, CASE stage_no WHEN 1 THEN 0 ELSE 1 END,
             CASE WHEN stage_no > 1 THEN 'bench' END, CASE WHEN stage_no > 1 THEN now() END, now(), 0, 0, now(),
             CASE WHEN stage_no > 1 THEN now() END
      FROM unnest(work, jobs, memes, grants) u(w, j, m, g);
    CASE stage_no
      WHEN 1 THEN
        INSERT INTO image_processing_stages (scope_id, job_id, stage, status, reused, task_id)
          SELECT scope, j, s, CASE s WHEN 'visual' THEN 'running' ELSE 'queued' END, false,
                 CASE s WHEN 'visual' THEN w END
          FROM unnest(jobs, work) u(j, w), unnest(stages) s;
        COMMIT;
        UPDATE tasks SET status = 'running', claim_generation = 1, lease_owner = 'bench', lease_expires_at = now(),
                         started_at = now()
          WHERE scope_id = scope AND task_id = ANY (work);
      ELSE
        UPDATE image_processing_stages s SET status = 'running', task_id = work[array_position(jobs, s.job_id)]
          WHERE s.scope_id = scope AND s.job_id = ANY (jobs) AND s.stage = stages[stage_no];
        UPDATE image_processing_jobs SET updated_at = now() WHERE scope_id = scope AND job_id = ANY (jobs);
    END CASE;
    IF stage_no = 2 THEN
      INSERT INTO operation_grants (scope_id, grant_id, operation, logical_request_key, fingerprint, reservation,
                                    task_id, job_id, status, created_at, updated_at)
        SELECT scope, g, 'analysis.agent', g::text, sha, g::text, w, j, 'committed', now(), now()
        FROM unnest(grants, work, jobs) u(g, w, j);
    END IF;
    -- a local call is started by its claim, the agent's announced in a transaction of its own
    INSERT INTO task_attempts (scope_id, task_id, attempt_no, attempt_id, request_id, session_id, generation, status,
                               input_digest, created_at, external_started_at, hard_deadline_at)
      SELECT scope, w, 1, w::text, w::text, w::text, 1, CASE stage_no WHEN 2 THEN 'grant_committed' ELSE 'external_started' END,
             sha, now(), CASE WHEN stage_no <> 2 THEN now() END, CASE WHEN stage_no <> 2 THEN now() END
      FROM unnest(work) w;
    COMMIT;
    IF stage_no = 2 THEN
      UPDATE task_attempts SET status = 'external_started', external_started_at = now(), hard_deadline_at = now()
        WHERE scope_id = scope AND task_id = ANY (work);
      COMMIT;
    END IF;
    CASE stage_no
      WHEN 1 THEN
        INSERT INTO visual_embeddings (scope_id, meme_id, image_sha256, space_id, dimension, embedding, created_at)
          SELECT scope, m, sha, space, 768, picture, now() FROM unnest(memes) m;
      WHEN 2 THEN
        INSERT INTO meme_contexts (scope_id, meme_id, status, revision, description, metadata_hash, provenance,
                                   updated_at)
          SELECT scope, m, 'partial', 1,
                 jsonb_build_object('title', m::text, 'summary', repeat('what can be seen ', 6)), sha,
                 jsonb_build_object('origin', 'agent', 'image_sha256', sha, 'agent_fingerprint', sha), now()
          FROM unnest(memes) m;
      ELSE
        INSERT INTO text_embeddings (scope_id, meme_id, image_sha256, metadata_hash, embedding_model_version,
                                     dimension, embedding, created_at)
          SELECT scope, m, sha, sha, space, 512, words, now() FROM unnest(memes) m;
        INSERT INTO search_vectors (scope_id, space_id, meme_id, image_sha256, metadata_hash, dimension, embedding,
                                    words)
          SELECT scope, space, m, sha, sha, 512, words,
                 format($$'%s%s':1A 'bench':1 'picture':1A 'png':1$$, m, m)::tsvector
          FROM unnest(memes) m;
    END CASE;
    UPDATE task_attempts SET status = 'completed', completed_at = now()
      WHERE scope_id = scope AND task_id = ANY (work);
    UPDATE tasks SET status = 'succeeded', lease_owner = NULL, lease_expires_at = NULL, completed_at = now()
      WHERE scope_id = scope AND task_id = ANY (work);
    UPDATE image_processing_stages SET status = 'succeeded'
      WHERE scope_id = scope AND job_id = ANY (jobs) AND stage = stages[stage_no];
  END LOOP;
  UPDATE image_processing_jobs SET status = 'succeeded', updated_at = now(), completed_at = now()
    WHERE scope_id = scope AND job_id = ANY (jobs);
  COMMIT;
END $procedure$;
