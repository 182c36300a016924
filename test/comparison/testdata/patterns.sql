-- Empty matches, right after others, too.
select regexp_replace('abc', 'b*', 'X', 'g'), regexp_replace('abc', '', 'X', 'g'), regexp_replace('abc', 'x*', '-', 'g')
select regexp_matches('abc', 'b*', 'g')
select regexp_split_to_array('abc', 'b*'), regexp_split_to_array('', ''), regexp_split_to_array('hello world', '\s*')
select regexp_count('abc', 'b*'), regexp_instr('abc', 'b*', 2), regexp_substr('abc', 'b*', 2)

-- The longest match counts, not the first alternative.
select substring('foobar' from 'foo|foobar'), regexp_replace('xab', '(a?)(ab)?', '-'), regexp_replace('abcabc', 'a|ab', '-', 'g')

-- A pattern that ends with its escape is an error where the text reaches it.
select 'a' like 'a\'
select 'ab' like 'a\'
select 'abc' like 'x\'
select 'abc' like '%\'
select '' like '%\'
select 'abc' similar to 'a\'
select 'a]' similar to '[]a]+', 'a1' similar to 'a\d', 'a' similar to 'A' escape ''
