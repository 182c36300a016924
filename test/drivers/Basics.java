import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.net.URI;
import java.sql.*;
import java.time.*;
import java.util.*;
import org.postgresql.PGConnection;

/** The basics of the JDBC driver against a server: java -cp postgresql.jar Basics.java URL */
public class Basics {
    interface Step { void run(Connection c) throws Exception; }

    static String url;
    static Properties props = new Properties();
    static int failures = 0;

    static Connection connect() throws SQLException { return DriverManager.getConnection(url, props); }

    static void step(String name, Step s) {
        try (Connection c = connect()) {
            s.run(c);
            System.out.println("  ok   " + name);
        } catch (Throwable e) {
            failures++;
            String state = e instanceof SQLException q ? q.getSQLState() + " " : "";
            System.out.println("  FAIL " + name + " - " + e.getClass().getSimpleName() + " " + state + String.valueOf(e.getMessage()).replace("\n", " | "));
        }
    }

    static void eq(Object got, Object want) {
        boolean same = got instanceof byte[] a && want instanceof byte[] b ? Arrays.equals(a, b) : Objects.equals(got, want);
        if (!same) throw new AssertionError("got " + got + ", want " + want);
    }

    static void state(Connection c, String sql, String want) throws SQLException {
        try (Statement s = c.createStatement()) {
            s.execute(sql);
        } catch (SQLException e) {
            eq(e.getSQLState(), want);
            return;
        }
        throw new AssertionError("no error: " + sql);
    }

    static long count(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) {
            r.next();
            return r.getLong(1);
        }
    }

    public static void main(String[] args) throws Exception {
        URI u = new URI(args[0].replaceFirst("^postgres(ql)?:", "http:"));
        url = "jdbc:postgresql://" + u.getHost() + ":" + u.getPort() + u.getPath() + (u.getQuery() == null ? "" : "?" + u.getQuery());
        String[] user = (u.getUserInfo() == null ? "root" : u.getUserInfo()).split(":");
        props.setProperty("user", user[0]);
        if (user.length > 1) props.setProperty("password", user[1]);

        step("connect", c -> {
            eq(count(c, "SELECT 1"), 1L);
            eq(c.getMetaData().getDatabaseProductName(), "PostgreSQL");
            eq(c.isValid(5), true);
        });
        step("create tables", c -> {
            try (Statement s = c.createStatement()) {
                s.execute("DROP TABLE IF EXISTS jdbc_types");
                s.execute("DROP TABLE IF EXISTS jdbc_rows");
                s.execute("CREATE TABLE jdbc_types (id int PRIMARY KEY, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(30,6), t text,"
                    + " v varchar(20), c char(5), by bytea, d date, ti time, ts timestamp, tz timestamptz, u uuid, j jsonb, iv interval)");
                s.execute("CREATE TABLE jdbc_rows (id int PRIMARY KEY, name text NOT NULL UNIQUE, n int CHECK (n >= 0))");
            }
        });
        step("types there and back, text then binary", c -> {
            Object[] want = {true, (short) -32768, Integer.MAX_VALUE, Long.MIN_VALUE, 1.5f, 1e300, new BigDecimal("123456789012345678.123456"), "snow \u2603 'q' \\",
                "varying", "abc  ", new byte[] {0, 1, -2, -1}, LocalDate.of(2024, 2, 29), LocalTime.of(23, 59, 59, 123456000), LocalDateTime.of(1999, 12, 31, 23, 59, 59, 999999000),
                OffsetDateTime.of(2026, 7, 1, 12, 0, 0, 0, ZoneOffset.UTC), new UUID(1L << 63, 1)};
            try (PreparedStatement p = c.prepareStatement("INSERT INTO jdbc_types VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?::jsonb,?::interval)")) {
                for (int i = 0; i < 20; i++) { // the driver turns to server-side statements after five
                    p.setInt(1, i);
                    for (int k = 0; k < want.length; k++) {
                        if (i % 2 == 1) p.setObject(k + 2, null); else p.setObject(k + 2, want[k]);
                    }
                    p.setString(18, i % 2 == 1 ? null : "{\"a\": [1, null]}");
                    p.setString(19, i % 2 == 1 ? null : "3 days 04:00:05");
                    eq(p.executeUpdate(), 1);
                }
            }
            try (PreparedStatement p = c.prepareStatement("SELECT * FROM jdbc_types WHERE id = ?")) {
                for (int i = 0; i < 20; i++) {
                    p.setInt(1, i);
                    try (ResultSet r = p.executeQuery()) {
                        eq(r.next(), true);
                        for (int k = 0; k < want.length; k++) {
                            Object got = i % 2 == 1 ? r.getObject(k + 2)
                                : want[k] instanceof byte[] ? r.getBytes(k + 2) : r.getObject(k + 2, want[k].getClass());
                            eq(got, i % 2 == 1 ? null : want[k]);
                        }
                        eq(r.getString(18), i % 2 == 1 ? null : "{\"a\": [1, null]}");
                        eq(r.next(), false);
                    }
                }
            }
        });
        step("batch", c -> {
            try (PreparedStatement p = c.prepareStatement("INSERT INTO jdbc_rows VALUES (?, ?, ?)")) {
                for (int i = 0; i < 500; i++) {
                    p.setInt(1, i);
                    p.setString(2, "row " + i);
                    p.setInt(3, i);
                    p.addBatch();
                }
                int[] n = p.executeBatch();
                eq(n.length, 500);
                eq(Arrays.stream(n).sum(), 500);
            }
            eq(count(c, "SELECT count(*) FROM jdbc_rows"), 500L);
        });
        step("generated keys", c -> {
            try (PreparedStatement p = c.prepareStatement("INSERT INTO jdbc_rows VALUES (?, ?, ?)", Statement.RETURN_GENERATED_KEYS)) {
                p.setInt(1, 700);
                p.setString(2, "generated");
                p.setInt(3, 7);
                p.executeUpdate();
                ResultSet r = p.getGeneratedKeys();
                eq(r.next(), true);
                eq(r.getInt("id"), 700);
            }
        });
        step("portals: rows in portions", c -> {
            c.setAutoCommit(false);
            try (PreparedStatement p = c.prepareStatement("SELECT id FROM jdbc_rows WHERE id < 500 ORDER BY id")) {
                p.setFetchSize(7);
                int n = 0;
                try (ResultSet r = p.executeQuery()) {
                    while (r.next()) eq(r.getInt(1), n++);
                }
                eq(n, 500);
            }
            c.commit();
        });
        step("errors by SQLSTATE", c -> {
            state(c, "SELECT * FROM no_such_table", "42P01");
            state(c, "SELEC 1", "42601");
            state(c, "SELECT 1/0", "22012");
            state(c, "SELECT 'x'::int", "22P02");
            state(c, "INSERT INTO jdbc_rows VALUES (1, 'other', 1)", "23505");
            state(c, "INSERT INTO jdbc_rows VALUES (5000, NULL, 1)", "23502");
            state(c, "INSERT INTO jdbc_rows VALUES (5000, 'z', -1)", "23514");
            eq(count(c, "SELECT 1"), 1L);
        });
        step("transactions", c -> {
            c.setAutoCommit(false);
            c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            try (Statement s = c.createStatement()) {
                s.execute("INSERT INTO jdbc_rows VALUES (3000, 'in', 1)");
                c.rollback();
                s.execute("INSERT INTO jdbc_rows VALUES (3001, 'outer', 1)");
                Savepoint p = c.setSavepoint();
                state(c, "INSERT INTO jdbc_rows VALUES (3001, 'again', 1)", "23505");
                state(c, "SELECT 1", "25P02");
                c.rollback(p);
                s.execute("INSERT INTO jdbc_rows VALUES (3003, 'after', 1)");
                c.commit();
            }
            eq(count(c, "SELECT count(*) FROM jdbc_rows WHERE id IN (3000, 3001, 3003)"), 2L);
            c.commit();
        });
        step("copy in and out", c -> {
            var m = c.unwrap(PGConnection.class).getCopyAPI();
            StringBuilder b = new StringBuilder();
            for (int i = 0; i < 300; i++) b.append(10000 + i).append("\tname ").append(i).append('\t').append(i % 7 == 0 ? "\\N" : "" + i).append('\n');
            eq(m.copyIn("COPY jdbc_rows (id, name, n) FROM STDIN", new StringReader(b.toString())), 300L);
            StringWriter w = new StringWriter();
            eq(m.copyOut("COPY (SELECT id, name, n FROM jdbc_rows WHERE id >= 10000 ORDER BY id) TO STDOUT", w), 300L);
            eq(w.toString(), b.toString());
        });
        step("cancel", c -> {
            try (Statement s = c.createStatement()) {
                new Timer(true).schedule(new TimerTask() {
                    public void run() { try { s.cancel(); } catch (SQLException e) { e.printStackTrace(); } }
                }, 300);
                long begin = System.nanoTime();
                try {
                    s.execute("SELECT pg_sleep(20)");
                    throw new AssertionError("not cancelled");
                } catch (SQLException e) {
                    eq(e.getSQLState(), "57014");
                    eq(System.nanoTime() - begin < 10_000_000_000L, true);
                }
            }
            eq(count(c, "SELECT 1"), 1L);
        });
        step("metadata", c -> {
            DatabaseMetaData m = c.getMetaData();
            List<String> names = new ArrayList<>();
            try (ResultSet r = m.getTables(null, "public", "jdbc_%", new String[] {"TABLE"})) {
                while (r.next()) names.add(r.getString("TABLE_NAME"));
            }
            Collections.sort(names);
            eq(names, List.of("jdbc_rows", "jdbc_types"));
            names.clear();
            try (ResultSet r = m.getColumns(null, "public", "jdbc_rows", null)) {
                while (r.next()) names.add(r.getString("COLUMN_NAME") + " " + r.getString("TYPE_NAME") + " " + r.getInt("NULLABLE"));
            }
            eq(names, List.of("id int4 0", "name text 0", "n int4 1"));
            names.clear();
            try (ResultSet r = m.getPrimaryKeys(null, "public", "jdbc_rows")) {
                while (r.next()) names.add(r.getString("COLUMN_NAME"));
            }
            eq(names, List.of("id"));
        });
        System.exit(failures > 0 ? 1 : 0);
    }
}
