"""Checks of what a scope's searches read (I15). That no legacy entry is of another scope's meme, `references` says."""

from typing import Final

from imgproc_adapters.postgres.invariants_check import Check

SEARCH: Final = (
    Check(
        invariant="I15",
        name="filled-beside-served",
        sentence="a space is filled only beside another one that serves",
        sql="""
            SELECT 'scope ' || g.scope_id,
                'fills ' || g.filling_space_id || ' and serves ' || coalesce(g.serving_space_id, 'nothing')
            FROM {search_migrations} g
            WHERE g.filling_space_id IS NOT NULL AND (g.serving_space_id <> g.filling_space_id) IS NOT true
        """,
        of_head=True,
    ),
    Check(
        invariant="I15",
        name="dimension-served",
        sentence="what is found in the space that serves, or is filled, has the dimension that queries have there",
        sql="""
            SELECT 'meme ' || v.meme_id, v.dimension || ' components, ' || v.space_id || ' is read with ' || g.dimension
            FROM {search_vectors} v JOIN (
                SELECT serving_space_id AS space_id, serving_dimension AS dimension FROM {search_migrations} served
                UNION ALL
                SELECT filling_space_id, filling_dimension FROM {search_migrations} filled
            ) g ON g.space_id = v.space_id WHERE g.dimension <> v.dimension
        """,
        of_head=True,
    ),
    Check(
        invariant="I15",
        name="legacy-readable",
        sentence="searches read a legacy index only where there is a complete one",
        sql="""
            SELECT 'scope ' || g.scope_id, 'is ' || g.mode || ' without a complete generation'
            FROM {search_migrations} g WHERE g.mode <> 'incremental_only'
              AND NOT EXISTS (SELECT FROM {cache_generations} c WHERE c.completed_at IS NOT NULL)
        """,
    ),
    Check(
        invariant="I15",
        name="dimension-of-generation",
        sentence="every entry of a generation has the dimension of the generation's space",
        sql="""
            SELECT 'entry of meme ' || e.meme_id || ' in generation ' || e.generation_id,
                e.dimension || ' components, ' || c.space_id || ' has ' || c.dimension
            FROM {cache_generation_entries} e JOIN {cache_generations} c ON c.generation_id = e.generation_id
            WHERE e.dimension <> c.dimension
        """,
    ),
    # a person may have asked for it: `imgproc backfill switch` can be told to leave pictures behind
    Check(
        invariant="I15",
        name="served-empty",
        sentence="a scope is not searched in a space that has nothing while another one has",
        sql="""
            SELECT 'scope ' || g.scope_id, 'serves ' || g.serving_space_id || ', where nothing can be found'
            FROM {search_migrations} g
            WHERE g.mode = 'incremental_only' AND g.serving_space_id IS NOT NULL
              AND EXISTS (SELECT FROM {search_vectors} other)
              AND NOT EXISTS (SELECT FROM {search_vectors} v WHERE v.space_id = g.serving_space_id)
        """,
        warning=True,
        of_head=True,
    ),
)
