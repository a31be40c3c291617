"""Checks of contexts and vectors: I4, I5, I13-I15. The components of a vector are not read."""

from typing import Final

from imgproc_adapters.postgres.invariants_check import Check

_CONTEXTS: Final = (
    Check(
        invariant="I4",
        name="context-of-attempt",
        sentence="an agent's context was written by a claim that settled its attempt as completed",
        sql="""
            SELECT 'context of meme ' || c.meme_id, 'is from an attempt that is ' || coalesce(a.status, 'missing') ||
                coalesce(', its task ' || t.status, '')
            FROM {agent_contexts} c LEFT JOIN {task_attempts} a ON a.attempt_id = c.attempt_id
                LEFT JOIN {tasks} t ON t.task_id = a.task_id
            WHERE a.status IS DISTINCT FROM 'completed' OR t.status IS DISTINCT FROM 'succeeded'
               OR t.task_type IS DISTINCT FROM 'meme_context_generation'
        """,
    ),
    Check(
        invariant="I5",
        name="version-of-context",
        sentence="an agent's context is of the picture version that its task worked on",
        sql="""
            SELECT 'context of meme ' || c.meme_id, 'was made from another picture than task ' || t.task_id
            FROM {agent_contexts} c LEFT JOIN {task_attempts} a ON a.attempt_id = c.attempt_id
                LEFT JOIN {tasks} t ON t.task_id = a.task_id
            WHERE (t.meme_id, t.image_sha256) IS DISTINCT FROM (c.meme_id, c.image_sha256) AND t.task_id IS NOT NULL
        """,
    ),
    Check(
        invariant="I13",
        name="policy-of-context",
        sentence="an agent's context says under which policy its task worked",
        sql="""
            SELECT 'context of meme ' || c.meme_id, 'says ' || coalesce(c.policy, 'nothing') ||
                ', task ' || t.task_id || ' is ' || t.reverse_image_policy
            FROM {agent_contexts} c LEFT JOIN {task_attempts} a ON a.attempt_id = c.attempt_id
                LEFT JOIN {tasks} t ON t.task_id = a.task_id
            WHERE t.reverse_image_policy IS DISTINCT FROM c.policy AND t.task_id IS NOT NULL
        """,
    ),
)

_SEARCH: Final = (
    Check(
        invariant="I14",
        name="found-not-current",
        sentence="only a meme that exists is found, by a vector of its present picture and usable context",
        sql="""
            SELECT 'meme ' || v.meme_id, 'is found in ' || v.space_id || ' by a vector that is not current'
            FROM {search_vectors} v WHERE NOT EXISTS (
                SELECT FROM {eligible} now_so
                WHERE now_so.meme_id = v.meme_id AND now_so.image_sha256 = v.image_sha256
                  AND now_so.metadata_hash = v.metadata_hash
            )
        """,
    ),
    Check(
        invariant="I14",
        name="current-not-found",
        sentence="a meme with a vector of its present picture and usable context is found",
        sql="""
            SELECT 'meme ' || e.meme_id, 'is not found in ' || e.embedding_model_version
            FROM {text_embeddings} e JOIN {eligible} now_so
                ON now_so.meme_id = e.meme_id AND now_so.image_sha256 = e.image_sha256
                AND now_so.metadata_hash = e.metadata_hash
            WHERE NOT EXISTS (
                SELECT FROM {search_vectors} v
                WHERE v.meme_id = e.meme_id AND v.space_id = e.embedding_model_version
                  AND v.image_sha256 = e.image_sha256 AND v.metadata_hash = e.metadata_hash
            )
        """,
    ),
    Check(
        invariant="I14",
        name="found-not-made",
        sentence="a meme is found only by a vector that a text stage made",
        sql="""
            SELECT 'meme ' || v.meme_id, 'is found in ' || v.space_id || ' by a vector that nothing made'
            FROM {search_vectors} v WHERE NOT EXISTS (
                SELECT FROM {text_embeddings} e
                WHERE e.meme_id = v.meme_id AND e.embedding_model_version = v.space_id
                  AND e.image_sha256 = v.image_sha256 AND e.metadata_hash = v.metadata_hash
                  AND e.dimension = v.dimension
            )
        """,
    ),
    Check(
        invariant="I14",
        name="dimension-of-space",
        sentence="every vector has the dimension of its space",
        sql="""
            SELECT v.kind || ' vector of meme ' || v.meme_id,
                v.dimension || ' components, ' || s.space_id || ' has ' || s.dimension
            FROM (
                SELECT 'visual' AS kind, meme_id, space_id, dimension FROM {visual_embeddings} a
                UNION ALL
                SELECT 'text', meme_id, embedding_model_version, dimension FROM {text_embeddings} b
                UNION ALL
                SELECT 'search', meme_id, space_id, dimension FROM {search_vectors} c
            ) v JOIN embedding_spaces s ON s.space_id = v.space_id WHERE s.dimension <> v.dimension
        """,
    ),
    Check(
        invariant="I15",
        name="search-state",
        sentence="a scope with pictures says where its searches read",
        sql="""
            SELECT 'scope ' || s.scope_id, 'has pictures and no search state' FROM {scopes} s
            WHERE EXISTS (SELECT FROM {memes} m) AND NOT EXISTS (SELECT FROM {search_migrations} g)
        """,
    ),
    Check(
        invariant="I15",
        name="generation-of-task",
        sentence="a maintenance task that succeeded left a complete generation",
        sql="""
            SELECT 'task ' || t.task_id, 'succeeded without a complete generation' FROM {tasks} t
            WHERE t.task_type = 'cache_generation' AND t.status = 'succeeded' AND NOT EXISTS (
                SELECT FROM {cache_generations} g WHERE g.task_id = t.task_id AND g.completed_at IS NOT NULL
            )
        """,
    ),
)

LIBRARY: Final = (*_CONTEXTS, *_SEARCH)
