/* The agent stage as it is built: reconcile, grant, claim, attempt, call, settle, recovery, lane slots, release outbox.
 *
 * Every database transaction is one atomic step (the rows it decides on are locked); the policy's store is another
 * system, so each of its answers is a step of its own. Any process may stop between any two steps, for ever (a crash)
 * or for any time (a pause): the lease may therefore run out at any instant, whatever the clocks say.
 * One job has one agent task and one logical request key, so that jobs, tasks, grants and keys share one index.
 * README.md says how to read this, what the bounds mean and what is left out.
 */

/* ---- bounds ---- */
#ifndef MEMES
#define MEMES 1         /* pictures, each with a job that is due */
#endif
#ifndef ACTS
#define ACTS 1          /* what people do: replace, put back, reconfigure, retry, edit, delete, nothing */
#endif
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef RECONCILERS
#define RECONCILERS 1
#endif
#ifndef LANE
#define LANE 1          /* slots of the agent lane */
#endif
#ifndef FAULTS
#define FAULTS 2        /* crashes, leases that run out under a living holder, lost replies to a settling COMMIT */
#endif
#ifndef FAILURES
#define FAILURES 2      /* transient answers until the task fails */
#endif
#ifndef LOSSES
#define LOSSES 2        /* lost leases until the task fails */
#endif
#define NEVER 0
#define LOOKUP 1
#define SAFE 2
#ifndef REPLAY
#define REPLAY NEVER    /* what the agent's adapter can prove about a lost call */
#endif
#define JOBS (MEMES + ACTS)
#if REPLAY == SAFE || defined(M_UNKNOWN_REPLAYED)
#define TRIES (FAILURES + FAULTS)     /* a stopped or lost local call is made again, and costs a fault */
#else
#define TRIES FAILURES
#endif
#define ATTEMPTS (JOBS * TRIES)
#define NONE 255

/* ---- states ---- */
#define QUEUED 1        /* job: due, its agent stage not opened; task: claimable */
#define RUNNING 2       /* job: its agent stage has its task; task: claimed */
#define SUCCEEDED 3     /* also an outcome */
#define FAILED 4        /* also an outcome; attempt: ended with a known outcome */
#define BLOCKED 5       /* also an outcome */
#define UNKNOWN 6       /* also an outcome; grant and attempt: nothing can be proven */
#define RETRY 7         /* outcome: a definite, transient answer */
#define GIVENBACK 8     /* outcome: a local call that was stopped */
#define VALID 9         /* outcome: a person described the picture before the call */
#define GIVENUP 10      /* outcome: unknown, found by a later claim, whose own slot saw no call */
#define POSTPONED 11    /* outcome: a look-up proved nothing while the call could still begin or end */
#define PREPARED 1      /* attempt, and so on */
#define GRANTED 2
#define STARTED 3
#define COMPLETED 5
#define ACQUIRED 1      /* grant and reservation */
#define COMMITTED 2
#define RELEASED 3      /* grant and reservation; for a key never seen it is the tombstone */
#define PENDING 1       /* release outbox */
#define DONE 2
#define MAY_RUN 1       /* asked about before its hard deadline */
#define IS_OVER 2
#define IN_FLIGHT 1     /* call */
#define OVER 2          /* call: ended, nobody has written back how */
#define ANSWERED 3      /* call: ended, and its definite answer was written back */

/* ---- one assertion an invariant; ONLY=n looks at one alone (20: quiescence) ---- */
#ifndef ONLY
#define ONLY 0
#endif
hidden byte I2 = (ONLY && ONLY != 2);
hidden byte I3 = (ONLY && ONLY != 3);
hidden byte I4 = (ONLY && ONLY != 4);
hidden byte I5 = (ONLY && ONLY != 5);
hidden byte I6 = (ONLY && ONLY != 6);
hidden byte I7 = (ONLY && ONLY != 7);
hidden byte I8 = (ONLY && ONLY != 8);
hidden byte I9 = (ONLY && ONLY != 9);
hidden byte I10 = (ONLY && ONLY != 10);
hidden byte I18 = (ONLY && ONLY != 18);
hidden byte quiescence = (ONLY && ONLY != 20);

/* ---- tables ---- */
byte jobs;                                        /* how many there are */
byte job[JOBS], job_gen[JOBS], job_owner[JOBS];   /* status, claim generation, lease owner (0: nobody) */
bool job_alive[JOBS];                             /* the lease owner has not crashed */
byte meme[JOBS], version[JOBS];                   /* the job's target */
byte current[MEMES], newest[MEMES];               /* picture version now, newest job */
bool edited[MEMES], gone[MEMES];                  /* a person's context is valid for it; deleted */
byte task[JOBS], gen[JOBS], owner[JOBS];          /* status, claim generation, lease owner */
bool waits[JOBS];                                 /* not claimable before its last attempt's hard deadline */
byte losses[JOBS], failures[JOBS], tries[JOBS];   /* tries: attempts so far */
byte grant[JOBS], outbox[JOBS];
byte attempt[ATTEMPTS], attempt_gen[ATTEMPTS];
byte slot_task[LANE], slot_gen[LANE], slot_until[LANE];   /* holder; attempt whose hard deadline frees it */
/* the policy's own store */
byte reservation[JOBS];
/* the world: external calls, and whether the attempt's hard deadline has passed */
byte call[ATTEMPTS];
bool late[ATTEMPTS];
byte about[ATTEMPTS];                             /* workers that have started the attempt and may yet call */
/* what only the checker knows: who truly holds the claim, whether that process lives, the last generation handed out */
byte holder[JOBS], issued[JOBS];
bool alive[JOBS];
bool asked[JOBS];                                 /* a person asked for this revision, and no call became unknown since */
byte faults = FAULTS, acts = ACTS;
#ifdef M_KEY_PER_ASK
bool orphan[JOBS];
#endif
hidden byte i, k, n, s, m, last, until;

#if JOBS == 1
#define PICK_JOB(x, ok) if :: ok(0) -> x = 0 fi
#elif JOBS == 2
#define PICK_JOB(x, ok) if :: ok(0) -> x = 0 :: ok(1) -> x = 1 fi
#elif JOBS == 3
#define PICK_JOB(x, ok) if :: ok(0) -> x = 0 :: ok(1) -> x = 1 :: ok(2) -> x = 2 fi
#else
#define PICK_JOB(x, ok) if :: ok(0) -> x = 0 :: ok(1) -> x = 1 :: ok(2) -> x = 2 :: ok(3) -> x = 3 fi
#endif
#if MEMES == 1
#define PICK_MEME(x, ok) if :: ok(0) -> x = 0 fi
#else
#define PICK_MEME(x, ok) if :: ok(0) -> x = 0 :: ok(1) -> x = 1 fi
#endif
#define EACH(x, count) x = 0; do :: x < (count) ->
#define NEXT(x) x++ :: else -> break od

#define LIVE(status) (status == QUEUED || status == RUNNING)
#define OPEN(a) (attempt[a] == PREPARED || attempt[a] == GRANTED || attempt[a] == STARTED)
#define CHANGED(j) (gone[meme[j]] || version[j] != current[meme[j]])
#define LAST(t) (t * TRIES + tries[t] - 1)
#define SAME_TARGET(x, y) (meme[x] == meme[y] && version[x] == version[y])
#define ENDED_UNKNOWN(x) (task[x] == FAILED && attempt[LAST(x)] == UNKNOWN)

/* ================================================ jobs ================================================ */

#define SAME(j, x) (x < jobs && x != j && meme[x] == meme[j] && version[x] == version[j] && LIVE(task[x]))
#if JOBS == 1
#define BUSY(j) false
#elif JOBS == 2
#define BUSY(j) (SAME(j, 0) || SAME(j, 1))
#elif JOBS == 3
#define BUSY(j) (SAME(j, 0) || SAME(j, 1) || SAME(j, 2))
#else
#define BUSY(j) (SAME(j, 0) || SAME(j, 1) || SAME(j, 2) || SAME(j, 3))
#endif

/* A job's row is written: a claim on it ends. */
inline write_job(j, status) {
  assert(I10 || LIVE(job[j]));
  job[j] = status; job_owner[j] = 0; job_alive[j] = false
}

/* A claimed job that gives up its agent stage without a task gives up its key, even if the policy denied it: a
 * reconciler whose claim is gone may be asking at this very moment. */
inline end_job(j, status) {
#ifndef M_CLOSE_WITHOUT_RELEASE
#ifdef M_BLOCK_WITHOUT_RELEASE
  if :: job[j] == QUEUED && job_gen[j] > 0 && status != BLOCKED -> outbox[j] = PENDING :: else fi;
#else
  if :: job[j] == QUEUED && job_gen[j] > 0 -> outbox[j] = PENDING :: else fi;
#endif
#endif
  write_job(j, status)
}

/* A call may have been made, and nobody will know how it ended: a job that waits for it ends, and makes no other. */
inline withhold(t) {
  EACH(k, jobs)
    if
    :: k != t && SAME_TARGET(k, t) ->
         asked[k] = false;
#ifndef M_WAITING_JOB_CALLS_AGAIN
         if
         :: job[k] == QUEUED && gone[meme[k]] -> end_job(k, FAILED)
         :: job[k] == QUEUED && !gone[meme[k]] && edited[meme[k]] -> end_job(k, SUCCEEDED)
         :: job[k] == QUEUED && !gone[meme[k]] && !edited[meme[k]] -> end_job(k, UNKNOWN)
         :: else
         fi
#endif
    :: else
    fi;
  NEXT(k)
}

/* A stage ends with its task, in the same transaction; a job that is over already is left alone. Where a person described
 * the picture meanwhile, the job goes on with their words. */
inline end_stage(j, status) {
  if
#ifdef M_CLOSED_JOB_SETTLED
  :: true ->
#else
  :: LIVE(job[j]) ->
#endif
       if
       :: status != UNKNOWN && edited[meme[j]] && !CHANGED(j) -> write_job(j, SUCCEEDED)
       :: else -> write_job(j, status)
       fi
#ifndef M_CLOSED_JOB_SETTLED
  :: else
#endif
  fi;
  if :: status == UNKNOWN -> withhold(t) :: else fi
}

inline open_revision(x, v) {
  job[jobs] = QUEUED; meme[jobs] = x; version[jobs] = v; newest[x] = jobs; jobs++
}

/* A revision that no person asked for: what its target's newest task left unknown is not called again. */
inline open_automatic(x) {
  open_revision(x, current[x]);
#ifndef M_PUT_BACK_CALLS_AGAIN
  n = 0;
  EACH(k, newest[x])
    if
    :: SAME_TARGET(k, newest[x]) && task[k] != 0 -> n = ENDED_UNKNOWN(k)
    :: else
    fi;
  NEXT(k);
  if :: n && !edited[x] -> job[newest[x]] = UNKNOWN :: else fi
#endif
}

/* The insert of a task with its grant, decided under the locks of meme and job. */
inline open_stage(j) {
  assert(I2 || !BUSY(j));
  assert(I7 || reservation[j] == ACQUIRED);
  assert(I8 || (grant[j] == 0 && outbox[j] == 0));
  task[j] = QUEUED;
#ifndef M_GRANT_BOUND_LATER
  grant[j] = ACQUIRED;
  job[j] = RUNNING; job_owner[j] = 0; job_alive[j] = false
#endif
}

#ifdef M_BUSY_IGNORED
#define WAITS(j) false
#else
#define WAITS(j) BUSY(j)
#endif
#define DUE(j) (job[j] == QUEUED && !WAITS(j) || LIVE(job[j]) && gone[meme[j]])
#define CLAIMABLE_JOB(j) (DUE(j) && (job_owner[j] == 0 || !job_alive[j] || faults > 0))
#define HOLDS_JOB (job_owner[j] == me + 1 && job_gen[j] == g)
#define NEEDS_PERMIT (job[j] == QUEUED && !edited[meme[j]] && !gone[meme[j]])

inline forget_job() { j = NONE; g = 0; permit = 0 }
inline crash_job() { if :: HOLDS_JOB -> job_alive[j] = false :: else fi; forget_job() }
inline drop_job() { job_owner[j] = 0; job_alive[j] = false }

#ifdef M_RELEASED_KEY_ACQUIRED
#define MAY_RESERVE true
#else
#define MAY_RESERVE (reservation[j] != RELEASED)
#endif

/* policy.acquire, idempotent by key. Its reply may be lost: the caller then sees operation_policy_unavailable. */
inline acquire() {
  if
  :: MAY_RESERVE ->
       assert(I8 || reservation[j] != RELEASED);
#ifdef M_KEY_PER_ASK
       if :: reservation[j] == ACQUIRED -> orphan[j] = true :: else fi;
#endif
       if :: reservation[j] != COMMITTED -> reservation[j] = ACQUIRED :: else fi;
       if :: permit = GRANTED :: permit = BLOCKED fi
#ifdef M_DENIAL_WITHOUT_RELEASE
  :: reservation[j] == 0 -> permit = FAILED
#else
  :: permit = BLOCKED                   /* denied, or no answer */
#endif
  fi
}

inline decide() {
  if
  :: gone[meme[j]] -> end_job(j, FAILED)
  :: else ->
       if
       :: job[j] != QUEUED || WAITS(j) -> drop_job()
       :: else ->
            if
            :: edited[meme[j]] -> end_job(j, SUCCEEDED)
            :: !edited[meme[j]] && permit == GRANTED -> open_stage(j)
            :: !edited[meme[j]] && permit == BLOCKED -> end_job(j, BLOCKED)
#ifdef M_DENIAL_WITHOUT_RELEASE
            :: !edited[meme[j]] && permit == FAILED -> write_job(j, BLOCKED)
#endif
            :: !edited[meme[j]] && permit == 0 -> drop_job()
            fi
       fi
  fi
}

proctype Reconciler(byte me) {
  byte j = NONE, g = 0, permit = 0;
end_idle:
  atomic {
    PICK_JOB(j, CLAIMABLE_JOB);
    if :: job_owner[j] != 0 && job_alive[j] -> faults-- :: else fi;
    job_gen[j]++; g = job_gen[j]; job_owner[j] = me + 1; job_alive[j] = true;
#ifdef M_TASK_BEFORE_GRANT
    permit = GRANTED; goto deciding
#else
    if :: NEEDS_PERMIT :: else -> goto deciding fi
#endif
  }
  if                                    /* outside any transaction */
  :: atomic { acquire(); goto deciding }
  :: atomic { faults > 0 -> faults--; crash_job(); goto end_idle }
  fi;
deciding:                               /* decided anew under the locks: the world may have changed */
  if
  :: atomic {
       if
#ifdef M_RECONCILE_UNFENCED
       :: LIVE(job[j]) -> assert(I4 || HOLDS_JOB); decide()
#else
       :: HOLDS_JOB -> decide()
#endif
       :: else
       fi;
#ifdef M_GRANT_BOUND_LATER
       if :: job[j] == QUEUED && task[j] != 0 -> goto binding :: else fi;
#endif
       forget_job(); goto end_idle
     }
  :: atomic { faults > 0 -> faults--; crash_job(); goto end_idle }
  fi;
#ifdef M_GRANT_BOUND_LATER
binding:
  if
  :: atomic {
       if :: HOLDS_JOB -> grant[j] = ACQUIRED; job[j] = RUNNING; drop_job() :: else fi;
       forget_job(); goto end_idle
     }
  :: atomic { faults > 0 -> faults--; crash_job(); goto end_idle }
  fi;
#endif
}

/* ================================================ tasks ================================================ */

#ifdef M_OWNER_FENCE
#define ME 1                            /* two workers of one process */
#define CURRENT (task[t] == RUNNING && owner[t] == ME)
#define SAME_GEN(x) true
#else
#define ME (me + 1)
#ifdef M_EXPIRY_KEEPS_GENERATION
#define CURRENT (gen[t] == g)
#else
#define CURRENT (task[t] == RUNNING && gen[t] == g && owner[t] == ME)
#endif
#define SAME_GEN(x) (x == g)
#endif
#define TRULY_MINE (task[t] == RUNNING && holder[t] == me + 1 && issued[t] == g)

#define SLOT_FREE(x) (slot_task[x] == NONE)
#define SLOT_MINE(x) (slot_task[x] == t && SAME_GEN(slot_gen[x]))
#if LANE == 1
#define A_SLOT_IS_FREE SLOT_FREE(0)
#define HOLDS_SLOT SLOT_MINE(0)
#else
#define A_SLOT_IS_FREE (SLOT_FREE(0) || SLOT_FREE(1))
#define HOLDS_SLOT (SLOT_MINE(0) || SLOT_MINE(1))
#endif
#if defined(M_START_WITHOUT_SLOT) || defined(W_NO_SLOT_CHECK)
#define IN_LANE true
#else
#define IN_LANE HOLDS_SLOT
#endif
#ifdef M_START_WITHOUT_SLOT
#define ROOM true
#else
#define ROOM A_SLOT_IS_FREE
#endif

inline take_slot(x, generation) {
  EACH(s, LANE)
    if :: SLOT_FREE(s) -> slot_task[s] = x; slot_gen[s] = generation; break :: else fi;
  NEXT(s)
}

/* Free the slot of a claim, at once or (a is an attempt) when that attempt's hard deadline has passed. */
inline free_slot(x, generation, a) {
  EACH(s, LANE)
    if
    :: slot_task[s] == x && slot_gen[s] == generation ->
         if
         :: a == NONE || late[a] -> slot_task[s] = NONE; slot_gen[s] = 0
         :: else -> slot_until[s] = a
         fi
    :: else
    fi;
  NEXT(s)
}

inline end_attempt(a, status) {
  if
  :: OPEN(a) -> attempt[a] = status; attempt_gen[a] = 0
  :: else -> assert(I10 || attempt[a] == status)
  fi
}

/* The end of a task decides its grant: released only if no call can have been made under it. */
inline end_task(t, status) {
  assert(I10 || LIVE(task[t]));
  task[t] = status; losses[t] = 0; failures[t] = 0; owner[t] = 0; holder[t] = 0; alive[t] = false
}

inline release_grant(t) {
  if
#ifdef M_COMMITTED_RELEASED
  :: grant[t] == ACQUIRED || grant[t] == COMMITTED ->
#else
  :: grant[t] == ACQUIRED ->
#endif
       grant[t] = RELEASED; outbox[t] = PENDING
  :: else
  fi
}

inline requeue(t) { task[t] = QUEUED; owner[t] = 0; holder[t] = 0; alive[t] = false }

/* ---- claim: slot, task and attempt in one transaction ---- */

inline begin_attempt(t) {
  if
  :: tries[t] == 0
  :: else -> last = LAST(t);
       assert(I6 || REPLAY == SAFE || (call[last] != IN_FLIGHT && attempt[last] == FAILED));
       assert(I9 || attempt[last] != UNKNOWN)
  fi;
  assert(tries[t] < TRIES);
  tries[t]++; a = LAST(t); attempt[a] = PREPARED; attempt_gen[a] = g
}

inline resume(t) {
  if
  :: tries[t] == 0 -> begin_attempt(t)
  :: else ->
       last = LAST(t);
       if
       :: !OPEN(last) -> begin_attempt(t)
       :: attempt[last] == PREPARED || attempt[last] == GRANTED -> a = last; attempt_gen[a] = g
       :: attempt[last] == STARTED ->
#ifdef M_ATTEMPT_REUSED
            a = last; attempt_gen[a] = g
#else
#if REPLAY == SAFE || defined(M_UNKNOWN_REPLAYED)
            end_attempt(last, FAILED); begin_attempt(t)
#else
            a = last; attempt_gen[a] = g;
            if :: REPLAY == LOOKUP -> asks = MAY_RUN + late[a] :: else -> outcome = GIVENUP fi
#endif
#endif
       fi
  fi;
  /* nothing it could make would be kept: it must not run, let alone cost money */
  if
  :: outcome == 0 && !asks && (CHANGED(t) || !LIVE(job[t])) -> outcome = FAILED
  :: outcome == 0 && !asks && !CHANGED(t) && LIVE(job[t]) && edited[meme[t]] -> outcome = VALID
  :: else
  fi
}

#ifdef M_CLAIM_KEEPS_GENERATION
#define RAISE 0
#else
#define RAISE 1
#endif

inline claim(t) {
  task[t] = RUNNING; owner[t] = ME; gen[t] = g;
  assert(I3 || g > issued[t]);
  issued[t] = g; holder[t] = me + 1; alive[t] = true; waits[t] = false
}

/* ---- the call ---- */

/* Counts calls that other revisions of the picture may have made, whose end nobody knows, and no person asked since. */
inline look_back(t) {
  n = 0;
  EACH(k, t)
    if
    :: SAME_TARGET(k, t) ->
         EACH(i, tries[k])
           n = n + (attempt[k * TRIES + i] == UNKNOWN || call[k * TRIES + i] == IN_FLIGHT || call[k * TRIES + i] == OVER);
         NEXT(i)
    :: else
    fi;
    if :: SAME_TARGET((k + 1), t) && asked[k + 1] -> n = 0 :: else fi;
  NEXT(k)
}

/* Calls of the task so far must be one more, at most, than the definite answers that were written back. */
inline make_call(t, a) {
  assert(I6 || call[a] == 0);
  assert(I6 || REPLAY == SAFE || a == LAST(t));
  assert(I7 || (grant[t] != 0 && grant[t] != ACQUIRED && reservation[t] == COMMITTED));
  assert(I7 || (attempt[a] != PREPARED && attempt[a] != GRANTED));
  assert(I8 || (grant[t] != RELEASED && reservation[t] != RELEASED && outbox[t] == 0));
  n = 0;
  EACH(i, tries[t]) n = n + (call[t * TRIES + i] == IN_FLIGHT || call[t * TRIES + i] == OVER); NEXT(i);
  assert(I9 || REPLAY == SAFE || n == 0);
  look_back(t);
  assert(I9 || REPLAY == SAFE || n == 0);
  call[a] = IN_FLIGHT;
  n = 0;
  EACH(i, ATTEMPTS) n = n + (call[i] == IN_FLIGHT); NEXT(i);
  assert(I18 || n <= LANE)
}

/* ---- settle: everything that one outcome writes, in one transaction ---- */

#ifdef M_SPLIT_SETTLE
#define END_STAGE(t, status) later = status
#else
#define END_STAGE(t, status) end_stage(t, status)
#endif

inline settle() {
  assert(I4 || TRULY_MINE);
  until = NONE;
  if
  :: outcome == SUCCEEDED ->
       if :: call[a] == OVER -> call[a] = ANSWERED :: else fi;
       end_attempt(a, COMPLETED);
       if
#ifdef M_STALE_PRODUCT
       :: false
#else
       :: CHANGED(t) -> end_task(t, FAILED); END_STAGE(t, FAILED)
#endif
       :: else ->
            assert(I5 || edited[meme[t]] || !CHANGED(t));
            end_task(t, SUCCEEDED); END_STAGE(t, SUCCEEDED)
       fi
  :: outcome == RETRY ->
       if :: call[a] == OVER -> call[a] = ANSWERED :: else fi;
       end_attempt(a, FAILED);
       failures[t]++;
       if
       :: failures[t] >= FAILURES -> end_task(t, FAILED); release_grant(t); END_STAGE(t, FAILED)
       :: else -> requeue(t)
       fi
  :: outcome == FAILED || outcome == BLOCKED ->
       if :: call[a] == OVER -> call[a] = ANSWERED :: else fi;
       end_attempt(a, FAILED); end_task(t, FAILED); release_grant(t); END_STAGE(t, outcome)
  :: outcome == VALID ->
       end_attempt(a, FAILED); end_task(t, SUCCEEDED); release_grant(t); END_STAGE(t, SUCCEEDED)
  :: outcome == UNKNOWN || outcome == GIVENUP ->
       end_attempt(a, UNKNOWN); end_task(t, FAILED); grant[t] = UNKNOWN; END_STAGE(t, UNKNOWN);
#ifdef M_UNKNOWN_RELEASED
       outbox[t] = PENDING;
#endif
#ifndef M_SLOT_FREED_ON_UNKNOWN
       if :: outcome == UNKNOWN -> until = a :: else fi
#endif
  :: outcome == GIVENBACK ->
       end_attempt(a, FAILED); requeue(t)
  :: outcome == POSTPONED ->
       requeue(t); waits[t] = true
  fi;
#ifdef M_OUTBOX_IN_MEMORY
  if :: outbox[t] == PENDING -> outbox[t] = 0; later = PENDING :: else fi;
#endif
  free_slot(t, g, until)
}

#if defined(M_UNFENCED_SETTLE)
#define MAY_SETTLE true
#elif defined(M_SETTLE_WITHOUT_ATTEMPT)
#define MAY_SETTLE (task[t] == RUNNING)
#elif defined(W_NO_ATTEMPT_CHECK)
#define MAY_SETTLE CURRENT
#else
#define MAY_SETTLE (CURRENT && a == LAST(t) && SAME_GEN(attempt_gen[a]) && OPEN(a))
#endif

#define CLAIMABLE(t) (task[t] == QUEUED && ROOM && (!waits[t] || late[LAST(t)]))
#define OR_CRASH :: atomic { faults > 0 -> faults--; crash(); goto end_idle }

inline forget() {
  t = NONE; g = 0; a = NONE; outcome = 0; asks = 0;
#if defined(M_OUTBOX_IN_MEMORY) || defined(M_SPLIT_SETTLE)
  later = 0
#endif
}
inline crash() { if :: TRULY_MINE -> alive[t] = false :: else fi; forget() }

proctype Worker(byte me) {
  byte t = NONE, g = 0, a = NONE, outcome = 0;
  byte asks = 0;                        /* asks about a lost call: one that MAY_RUN, or IS_OVER since before the claim */
#if defined(M_OUTBOX_IN_MEMORY) || defined(M_SPLIT_SETTLE)
  byte later = 0;
#endif
end_idle:
#if defined(M_SPLIT_CLAIM)
  atomic { PICK_JOB(t, CLAIMABLE); g = gen[t] + RAISE }
  atomic {
    if :: task[t] == SUCCEEDED || task[t] == FAILED || !ROOM -> forget(); goto end_idle :: else fi;
    claim(t); take_slot(t, g); resume(t);
#elif defined(M_SPLIT_SLOT)
  atomic { PICK_JOB(t, CLAIMABLE); g = gen[t] + RAISE; take_slot(t, g) }
  if :: true OR_CRASH fi;
  atomic {
    if
    :: task[t] != QUEUED || gen[t] + RAISE != g -> free_slot(t, g, NONE); forget(); goto end_idle
    :: else
    fi;
    claim(t); resume(t);
#else
  atomic {
    PICK_JOB(t, CLAIMABLE);
    g = gen[t] + RAISE; claim(t); take_slot(t, g); resume(t);
#endif
    if
    :: outcome != 0 -> goto settling
    :: outcome == 0 && asks -> goto looking_up
    :: outcome == 0 && !asks && attempt[a] == PREPARED -> goto committing
    :: outcome == 0 && !asks && attempt[a] == GRANTED -> goto starting
#ifdef M_ATTEMPT_REUSED
    :: outcome == 0 && !asks && attempt[a] == STARTED -> goto calling
#endif
    fi
  }

committing:                             /* policy.commit, idempotent; its reply may be lost */
  if
  :: atomic {
#ifdef M_ACQUIRE_PER_ATTEMPT
       assert(I8 || reservation[t] == ACQUIRED);
#endif
#ifdef M_COMMIT_AFTER_CALL
       skip
#else
       if
       :: reservation[t] != RELEASED -> reservation[t] = COMMITTED
       :: reservation[t] != RELEASED -> reservation[t] = COMMITTED; outcome = BLOCKED
       :: outcome = BLOCKED
       fi;
#ifdef M_COMMIT_UNCHECKED
       outcome = 0;
#endif
       if :: outcome == BLOCKED -> goto settling :: else fi
#endif
     }
  OR_CRASH
  fi;
  if                                    /* persist grant_committed on attempt and grant */
  :: atomic {
       if
       :: CURRENT && IN_LANE && attempt[a] == PREPARED ->
            assert(I4 || TRULY_MINE);
            if :: grant[t] == ACQUIRED -> grant[t] = COMMITTED :: else fi;
            attempt[a] = GRANTED
       :: else -> crash(); goto end_idle
       fi
     }
  OR_CRASH
  fi;

starting:                               /* persist external_started, with the hard deadline */
#ifdef M_START_AFTER_CALL
  atomic { make_call(t, a) }
#endif
  if
  :: atomic {
       if
       :: CURRENT && IN_LANE && attempt[a] == GRANTED ->
            assert(I4 || TRULY_MINE);
            assert(I7 || (grant[t] == COMMITTED && reservation[t] == COMMITTED));
            attempt[a] = STARTED; about[a]++
#ifdef M_START_UNCHECKED
       :: else
#else
       :: else -> crash(); goto end_idle
#endif
       fi
     }
  OR_CRASH
  fi;

calling:                                /* a call that has not begun at its hard deadline never begins */
#ifndef M_START_AFTER_CALL
  if
#ifdef M_CALL_AFTER_DEADLINE
  :: atomic { make_call(t, a); about[a]-- }
#else
  :: atomic { !late[a] -> make_call(t, a); about[a]-- }
#endif
  :: atomic { late[a] && call[a] == 0 -> outcome = (REPLAY == SAFE -> RETRY : UNKNOWN); about[a]--; goto settling }
  :: atomic { call[a] == 0 -> outcome = RETRY; about[a]--; goto settling }   /* stood still too long, or not sent */
  :: atomic { faults > 0 -> faults--; about[a]--; crash(); goto end_idle }
  fi;
#endif
#ifdef M_COMMIT_AFTER_CALL
  atomic { if :: reservation[t] == ACQUIRED -> reservation[t] = COMMITTED :: else fi };
#endif
  if
  :: atomic {
       call[a] != IN_FLIGHT ->
       if
       :: outcome = SUCCEEDED
       :: outcome = RETRY
       :: outcome = FAILED
       :: outcome = (REPLAY == SAFE -> RETRY : UNKNOWN)
       fi;
       goto settling
     }
#if REPLAY == SAFE
  :: atomic { faults > 0 -> faults--; if :: call[a] == IN_FLIGHT -> call[a] = OVER :: else fi; outcome = GIVENBACK; goto settling }
#else
  :: atomic {                           /* the connection broke: the call may go on */
       call[a] == IN_FLIGHT ->
#ifdef M_LOST_IS_TRANSIENT
       outcome = RETRY;
#else
       outcome = UNKNOWN;
#endif
       goto settling
     }
#endif
  OR_CRASH
  fi;

looking_up:                             /* ask for the result of exactly this attempt */
  if
  :: atomic {
       if
       :: call[a] == OVER -> if :: outcome = SUCCEEDED :: outcome = RETRY :: outcome = FAILED fi
#ifdef M_NOT_STARTED_TOO_EARLY
       :: call[a] == 0 -> outcome = RETRY
#else
       :: asks == IS_OVER && call[a] == 0 -> outcome = RETRY      /* not started, and it cannot start any more */
#endif
       :: asks == MAY_RUN -> outcome = POSTPONED
       :: asks == IS_OVER -> outcome = UNKNOWN
       fi
     }
  OR_CRASH
  fi;

settling:
#ifdef M_CHECK_THEN_WRITE
  atomic { if :: MAY_SETTLE :: else -> crash(); goto end_idle fi }
#endif
  if
  :: atomic {
       if
#ifdef M_CHECK_THEN_WRITE
       :: true -> settle()
#else
       :: MAY_SETTLE -> settle()
       :: else -> crash(); goto end_idle               /* a late result: evidence, nothing else */
#endif
       fi;
#if defined(M_OUTBOX_IN_MEMORY)
       if :: later -> goto telling :: else fi;
#elif defined(M_SPLIT_SETTLE)
       if :: later -> goto ending_stage :: else fi;
#endif
       if
       :: forget(); goto end_idle
#ifdef M_CLOSURE_RETRIED
       :: faults > 0 -> faults--; goto calling          /* call and settle are run again as one */
#else
       :: faults > 0 -> faults--; goto settling         /* the reply to COMMIT was lost: settled once more */
#endif
       fi
     }
  OR_CRASH
  fi;

#ifdef M_OUTBOX_IN_MEMORY
telling:
  if
  :: atomic { outbox[t] = PENDING; forget(); goto end_idle }
  OR_CRASH
  fi;
#endif
#ifdef M_SPLIT_SETTLE
ending_stage:
  if
  :: atomic { end_stage(t, later); forget(); goto end_idle }
  OR_CRASH
  fi;
#endif
}

/* ================================ recovery, policy, people, the world ================================ */

#define EXPIRABLE(t) (task[t] == RUNNING && (!alive[t] || faults > 0))
#define UNDECIDED (attempt[last] == STARTED && REPLAY != SAFE)
#if REPLAY == SAFE
#define MOST_LOSSES LOSSES
#else
#define MOST_LOSSES (2 * LOSSES)        /* of a call that may have been made: its look-ups may be lost, too */
#endif
#define EXHAUSTING(t) (EXPIRABLE(t) && losses[t] + 1 >= LOSSES && attempt[LAST(t)] != STARTED && reservation[t] != RELEASED)

/* expire_leases: one transaction a batch; the generation rises, a slot whose call may run stays taken */
inline expire(t) {
  if :: alive[t] -> faults-- :: else fi;
  last = LAST(t);
  until = NONE;
#ifndef M_SLOT_FREED_AT_EXPIRY
  if :: attempt[last] == STARTED -> until = last :: else fi;
#endif
  free_slot(t, gen[t], until);
#if !defined(M_EXPIRY_KEEPS_GENERATION) && !defined(W_NO_RAISE_AT_EXPIRY)
  gen[t]++;
#endif
  if :: losses[t] < MOST_LOSSES -> losses[t]++ :: else fi;
  if
#ifdef M_UNDECIDED_EXHAUSTED
  :: losses[t] >= LOSSES ->
#else
  :: losses[t] >= LOSSES && !UNDECIDED ->
#endif
       assert(I9 || !UNDECIDED);
       end_attempt(last, FAILED); end_task(t, FAILED); release_grant(t); end_stage(t, FAILED)
  :: losses[t] >= MOST_LOSSES && UNDECIDED ->
#ifdef M_LOST_LOOKUPS_FAIL
       end_attempt(last, FAILED); end_task(t, FAILED); release_grant(t); end_stage(t, FAILED)
#else
       end_attempt(last, UNKNOWN); end_task(t, FAILED); grant[t] = UNKNOWN; end_stage(t, UNKNOWN)
#endif
  :: else -> requeue(t)
  fi
}

/* flush_releases: at least once; I8 says that nothing was called, or can be */
inline release(k) {
  n = 0;
  EACH(i, TRIES) n = n + (call[k * TRIES + i] != 0); NEXT(i);
  assert(I8 || n == 0);
#ifdef M_NO_TOMBSTONE
  if :: reservation[k] != 0 -> reservation[k] = RELEASED :: else fi;
#elif defined(M_SPENT_NOT_GIVEN_BACK)
  if :: reservation[k] != COMMITTED -> reservation[k] = RELEASED :: else fi;
#else
  reservation[k] = RELEASED;
#endif
  outbox[k] = DONE
}
#define RELEASABLE(k) (outbox[k] == PENDING)

proctype Recovery() {
  byte t = 0;
end_idle:
  do
#ifdef M_RELEASED_BEFORE_FENCED
  :: atomic { PICK_JOB(t, EXHAUSTING); reservation[t] = RELEASED; t = 0 }
#endif
  :: atomic { PICK_JOB(t, EXPIRABLE); expire(t); t = 0 }
  :: atomic { PICK_JOB(t, RELEASABLE); release(t); t = 0 }
  od
}

#define ACTIVE(x) LIVE(job[newest[x]])
#define PRESENT(x) (acts > 0 && !gone[x])
#define RECONFIGURABLE(x) (PRESENT(x) && job[newest[x]] == QUEUED)
#define RETRYABLE(x) (PRESENT(x) && !ACTIVE(x) && job[newest[x]] != SUCCEEDED)
#define EDITABLE(x) (PRESENT(x) && !edited[x])

/* What an operator attests: the process that started the call is gone, and the call is over. */
#ifdef M_RESOLVED_WITHOUT_EVIDENCE
#define ATTESTED(a) true
#else
#define ATTESTED(a) (call[a] != IN_FLIGHT && about[a] == 0)
#endif
#define RESOLVABLE(x) (acts > 0 && slot_until[x] != NONE && attempt[slot_until[x]] == UNKNOWN && ATTESTED(slot_until[x]))

inline resolve(x) { acts--; slot_task[x] = NONE; slot_gen[x] = 0; slot_until[x] = NONE }

inline close_active(x) { if :: ACTIVE(x) -> end_job(newest[x], FAILED) :: else fi }

proctype People() {
  byte x = 0;
end_idle:
  do
  :: atomic {                           /* another picture: the active job ends, the next one opens */
       PICK_MEME(x, PRESENT); acts--;
       close_active(x); current[x]++; edited[x] = false; open_revision(x, current[x]); x = 0
     }
  :: atomic {                           /* another picture, and this one again before anything was made of that */
       PICK_MEME(x, PRESENT); acts--;
       close_active(x); open_automatic(x); x = 0
     }
  :: atomic {                           /* another configuration: the next revision may do what this one might */
       PICK_MEME(x, RECONFIGURABLE); acts--;
       close_active(x); open_revision(x, current[x]); asked[newest[x]] = asked[newest[x] - 1]; x = 0
     }
  :: atomic {                           /* explicit retry: a new revision, never the old job */
       PICK_MEME(x, RETRYABLE); acts--;
#ifdef M_JOB_REVIVED
       assert(I10 || LIVE(job[newest[x]])); job[newest[x]] = QUEUED; x = 0
#else
       open_revision(x, current[x]); asked[newest[x]] = true; x = 0
#endif
     }
  :: atomic { PICK_MEME(x, EDITABLE); acts--; edited[x] = true; x = 0 }
  :: atomic { PICK_MEME(x, PRESENT); acts--; gone[x] = true; x = 0 }
  :: atomic { RESOLVABLE(0) -> resolve(0) }                       /* an unknown execution: only its slot changes */
#if LANE == 2
  :: atomic { RESOLVABLE(1) -> resolve(1) }
#endif
  :: atomic { acts > 0 -> acts-- }      /* they might have, and did not */
  od
}

/* A call ends at any time, even if nobody waits for it, and is not in flight after its hard deadline. */
#define MAY_PASS(a) (!late[a] && (attempt[a] == STARTED || attempt[a] == UNKNOWN || AWAITED(a)))
#if LANE == 1
#define AWAITED(a) (slot_until[0] == a)
#else
#define AWAITED(a) (slot_until[0] == a || slot_until[1] == a)
#endif

inline pass_deadline(a) {
  late[a] = true;
  if :: call[a] == IN_FLIGHT -> call[a] = OVER :: else fi;
#ifndef M_SLOT_WITHOUT_DEADLINE
  EACH(s, LANE)
    if :: slot_until[s] == a -> slot_task[s] = NONE; slot_gen[s] = 0; slot_until[s] = NONE :: else fi;
  NEXT(s)
#endif
}

#define WORLD(a) \
  :: atomic { call[a] == IN_FLIGHT -> call[a] = OVER } \
  :: atomic { MAY_PASS(a) -> pass_deadline(a) }

proctype World() {
end_idle:
  do
  WORLD(0)
#if ATTEMPTS > 1
  WORLD(1)
#endif
#if ATTEMPTS > 2
  WORLD(2)
#endif
#if ATTEMPTS > 3
  WORLD(3)
#endif
#if ATTEMPTS > 4
  WORLD(4)
#endif
#if ATTEMPTS > 5
  WORLD(5)
#endif
#if ATTEMPTS > 6
  WORLD(6)
#endif
#if ATTEMPTS > 7
  WORLD(7)
#endif
#if ATTEMPTS > 8
#error "bounds too large: more than 8 attempts"
#endif
  od
}

/* Nothing can happen any more: nothing is lost, nothing is kept. */
proctype Quiescence() {
  byte q = 0;
  timeout ->
  do
  :: q < jobs ->
       assert(quiescence || !LIVE(job[q]));                                     /* no lost job */
       assert(quiescence || !LIVE(task[q]));                                    /* no lost task */
       assert(quiescence || (grant[q] != ACQUIRED && outbox[q] != PENDING));    /* no leaked grant */
       assert(quiescence || reservation[q] != ACQUIRED);                        /* no leaked reservation */
       assert(quiescence || reservation[q] != COMMITTED || grant[q] == COMMITTED || grant[q] == UNKNOWN);
#ifdef M_KEY_PER_ASK
       assert(quiescence || !orphan[q]);
#endif
       q++
  :: q == jobs -> break
  od;
  assert(quiescence || A_SLOT_IS_FREE);
#if LANE == 2
  assert(quiescence || (SLOT_FREE(0) && SLOT_FREE(1)))                          /* no leaked slot */
#endif
}

init {
  atomic {
    EACH(i, LANE) slot_task[i] = NONE; slot_until[i] = NONE; NEXT(i);
    EACH(i, MEMES) open_revision(i, 0); NEXT(i);
    EACH(i, RECONCILERS) run Reconciler(i); NEXT(i);
    EACH(i, WORKERS) run Worker(i); NEXT(i);
    run Recovery(); run People(); run World(); run Quiescence()
  }
}
