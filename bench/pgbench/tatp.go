package main

// TATP, the Telecommunication Application Transaction Processing benchmark, with its shares. A call forwarding that exists already is
// left as it is, where the benchmark counts a failure: an error would end pgbench's client.
const (
	tatpRows = 10_000 // subscribers for each of pgbench's scale

	tatpLoad = `DROP TABLE IF EXISTS tatp_call_forwarding, tatp_special_facility, tatp_access_info, tatp_subscriber;
CREATE TABLE tatp_subscriber (s_id int PRIMARY KEY, sub_nbr varchar(15) NOT NULL UNIQUE, bit_1 smallint, hex_1 smallint, byte2_1 smallint,
  msc_location int, vlr_location int);
CREATE TABLE tatp_access_info (s_id int, ai_type smallint, data1 smallint, data2 smallint, data3 varchar(3), data4 varchar(5), PRIMARY KEY (s_id, ai_type));
CREATE TABLE tatp_special_facility (s_id int, sf_type smallint, is_active smallint, error_cntrl smallint, data_a smallint, data_b varchar(5),
  PRIMARY KEY (s_id, sf_type));
CREATE TABLE tatp_call_forwarding (s_id int, sf_type smallint, start_time smallint, end_time smallint, numberx varchar(15),
  PRIMARY KEY (s_id, sf_type, start_time));
INSERT INTO tatp_subscriber SELECT g, lpad(g::text, 15, '0'), g % 2, g % 16, g % 256, g, g FROM generate_series(1, :subscribers) AS g;
INSERT INTO tatp_access_info SELECT g, t, g % 256, g % 256, 'abc', 'abcde' FROM generate_series(1, :subscribers) AS g, generate_series(1, 4) AS t
  WHERE (g + t) % 8 < 5;
INSERT INTO tatp_special_facility SELECT g, t, ((g + t) % 20 > 2)::int, g % 256, g % 256, 'abcde' FROM generate_series(1, :subscribers) AS g,
  generate_series(1, 4) AS t WHERE (g + t) % 8 < 5;
INSERT INTO tatp_call_forwarding SELECT s_id, sf_type, t * 8, t * 8 + 1 + s_id % 8, '123456789012345' FROM tatp_special_facility, generate_series(0, 2) AS t
  WHERE (s_id + t) % 2 = 0;
ANALYZE tatp_subscriber;
ANALYZE tatp_access_info;
ANALYZE tatp_special_facility;
ANALYZE tatp_call_forwarding;
`
	tatpKey        = "\\set s random(1, :subscribers)\n\\set t random(1, 4)\n\\set b random(0, 2) * 8\n\\set e random(1, 24)\n\\set v random(0, 255)\n"
	tatpSubscriber = tatpKey + "SELECT * FROM tatp_subscriber WHERE s_id = :s;\n"
	tatpAccess     = tatpKey + "SELECT data1, data2, data3, data4 FROM tatp_access_info WHERE s_id = :s AND ai_type = :t;\n"
	tatpNewDest    = tatpKey + `SELECT cf.numberx FROM tatp_special_facility AS sf, tatp_call_forwarding AS cf WHERE sf.s_id = :s AND sf.sf_type = :t AND sf.is_active = 1
  AND cf.s_id = sf.s_id AND cf.sf_type = sf.sf_type AND cf.start_time <= :b AND cf.end_time > :e;
`
	tatpLocation = tatpKey + "UPDATE tatp_subscriber SET vlr_location = :v WHERE sub_nbr = lpad((:s)::text, 15, '0');\n"
	tatpUpdate   = tatpKey + `BEGIN;
UPDATE tatp_subscriber SET bit_1 = :v % 2 WHERE s_id = :s;
UPDATE tatp_special_facility SET data_a = :v WHERE s_id = :s AND sf_type = :t;
END;
`
	tatpInsert = tatpKey + `BEGIN;
SELECT s_id FROM tatp_subscriber WHERE sub_nbr = lpad((:s)::text, 15, '0');
SELECT sf_type FROM tatp_special_facility WHERE s_id = :s;
INSERT INTO tatp_call_forwarding VALUES (:s, :t, :b, :e, '123456789012345') ON CONFLICT DO NOTHING;
END;
`
	tatpDelete = tatpKey + `BEGIN;
SELECT s_id FROM tatp_subscriber WHERE sub_nbr = lpad((:s)::text, 15, '0');
DELETE FROM tatp_call_forwarding WHERE s_id = :s AND sf_type = :t AND start_time = :b;
END;
`
)

func tatp() mix {
	return mix{load: tatpLoad, custom: []weighted{{35, tatpSubscriber}, {35, tatpAccess}, {10, tatpNewDest}, {14, tatpLocation}, {2, tatpUpdate},
		{2, tatpInsert}, {2, tatpDelete}}}
}
