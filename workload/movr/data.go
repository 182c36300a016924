package movr

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// City is a place of business and the region of it.
type City struct{ Name, Region string }

// Cities lists all, region by region.
var Cities = [...]City{
	{"new york", "us-east1"}, {"boston", "us-east1"}, {"washington dc", "us-east1"},
	{"seattle", "us-west1"}, {"san francisco", "us-west1"}, {"los angeles", "us-west1"},
	{"amsterdam", "europe-west1"}, {"paris", "europe-west1"}, {"rome", "europe-west1"},
}

// Tables lists the six tables; each refers only to earlier ones.
var Tables = [...]string{"users", "vehicles", "rides", "vehicle_location_histories", "promo_codes", "user_promo_codes"}

// schema makes the tables and their secondary indexes.
var schema = [...]string{
	`CREATE TABLE users (
	id uuid NOT NULL,
	city varchar NOT NULL,
	name varchar,
	address varchar,
	credit_card varchar,
	PRIMARY KEY (city, id))`,
	`CREATE TABLE vehicles (
	id uuid NOT NULL,
	city varchar NOT NULL,
	type varchar,
	owner_id uuid,
	creation_time timestamp,
	status varchar,
	current_location varchar,
	ext jsonb,
	PRIMARY KEY (city, id),
	CONSTRAINT vehicles_owner_fk FOREIGN KEY (city, owner_id) REFERENCES users (city, id))`,
	`CREATE TABLE rides (
	id uuid NOT NULL,
	city varchar NOT NULL,
	vehicle_city varchar,
	rider_id uuid,
	vehicle_id uuid,
	start_address varchar,
	end_address varchar,
	start_time timestamp,
	end_time timestamp,
	revenue decimal(10,2),
	PRIMARY KEY (city, id),
	CONSTRAINT rides_rider_fk FOREIGN KEY (city, rider_id) REFERENCES users (city, id),
	CONSTRAINT rides_vehicle_fk FOREIGN KEY (vehicle_city, vehicle_id) REFERENCES vehicles (city, id),
	CONSTRAINT rides_city_check CHECK (vehicle_city = city))`,
	`CREATE TABLE vehicle_location_histories (
	city varchar NOT NULL,
	ride_id uuid NOT NULL,
	"timestamp" timestamp NOT NULL,
	lat float8,
	long float8,
	PRIMARY KEY (city, ride_id, "timestamp"),
	CONSTRAINT vehicle_location_histories_ride_fk FOREIGN KEY (city, ride_id) REFERENCES rides (city, id))`,
	`CREATE TABLE promo_codes (
	code varchar NOT NULL PRIMARY KEY,
	description varchar,
	creation_time timestamp,
	expiration_time timestamp,
	rules jsonb)`,
	`CREATE TABLE user_promo_codes (
	city varchar NOT NULL,
	user_id uuid NOT NULL,
	code varchar NOT NULL,
	"timestamp" timestamp,
	usage_count int,
	PRIMARY KEY (city, user_id, code),
	CONSTRAINT user_promo_codes_user_fk FOREIGN KEY (city, user_id) REFERENCES users (city, id))`,
	"CREATE INDEX vehicles_owner_idx ON vehicles (city, owner_id)",
	"CREATE INDEX rides_rider_idx ON rides (city, rider_id)",
	"CREATE INDEX rides_vehicle_idx ON rides (vehicle_city, vehicle_id)",
}

// Rows says how many rows to make. Every city has at least one user and one vehicle.
type Rows struct{ Users, Vehicles, Rides, Locations, PromoCodes, UserPromoCodes int }

// Sample is the sample that the demonstration loads.
var Sample = Rows{Users: 50, Vehicles: 18, Rides: 120, Locations: 200, PromoCodes: 20, UserPromoCodes: 30}

// insertRows bounds the rows of one INSERT.
const insertRows = 500

var (
	firstNames = [...]string{"Ada", "Bruno", "Carla", "Dmitri", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas",
		"Keiko", "Liam", "Mara", "Nadia", "Oskar", "Priya", "Quentin", "Rosa", "Samir", "Tove"}
	lastNames = [...]string{"Abbott", "Bianchi", "Costa", "Dupont", "Eriksen", "Fischer", "Garcia", "Haddad", "Ivanova", "Jansen",
		"Kowalski", "Lindqvist", "Moreau", "Novak", "Okafor", "Petrov", "Rossi", "Silva", "Tanaka", "Weber"}
	streets = [...]string{"Harbour Street", "Mill Lane", "Station Road", "Garden Avenue", "Bridge Street", "Market Square",
		"Church Street", "Hill Road", "Canal Walk", "Orchard Way", "Tower Street", "Lake Drive"}
	kinds  = [...]string{"bike", "scooter", "skateboard"}
	colors = [...]string{"red", "blue", "green", "black", "yellow", "white"}
)

// generator draws rows; equal seeds draw equal rows.
type generator struct {
	dice *rand.Rand
	now  time.Time
}

func newGenerator(seed uint64) *generator {
	return &generator{dice: rand.New(rand.NewPCG(seed, 6)), now: time.Date(2026, time.January, 15, 12, 0, 0, 0, time.UTC)}
}

// uuid draws a version 4 identifier.
func uuid(dice *rand.Rand) string {
	a, b := dice.Uint64(), dice.Uint64()
	a = a&^0xf000 | 0x4000
	b = b&^(0xc000<<48) | 0x8000<<48
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff)
}

func address(dice *rand.Rand) string {
	return fmt.Sprintf("%d %s", 1+dice.IntN(199), streets[dice.IntN(len(streets))])
}

func (g *generator) stamp(within time.Duration) string {
	return g.now.Add(-span(g.dice, within).Truncate(time.Second)).Format("2006-01-02 15:04:05")
}

const day = 24 * time.Hour

// statements returns INSERTs that hold the rows of all tables, parents first.
func (r Rows) statements(seed uint64) []string {
	g := newGenerator(seed)
	n := len(Cities)
	r.Users, r.Vehicles = max(r.Users, n), max(r.Vehicles, n)
	var out []string
	table := func(name, columns string, rows int, row func(i int) string) {
		var b strings.Builder
		for i := range rows {
			if i%insertRows == 0 {
				if i > 0 {
					out = append(out, b.String())
					b.Reset()
				}
				b.WriteString("INSERT INTO " + name + " (" + columns + ") VALUES\n\t")
			} else {
				b.WriteString(",\n\t")
			}
			b.WriteString(row(i))
		}
		if rows > 0 {
			out = append(out, b.String())
		}
	}
	users, vehicles, rides := make([]string, r.Users), make([]string, r.Vehicles), make([]string, r.Rides)
	pick := func(ids []string, city int) string { // one of the city's: ids are dealt to the cities in turn
		return ids[city+n*g.dice.IntN((len(ids)-city-1)/n+1)]
	}
	table("users", "id, city, name, address, credit_card", r.Users, func(i int) string {
		users[i] = uuid(g.dice)
		return fmt.Sprintf("('%s', '%s', '%s %s', '%s', '%010d')", users[i], Cities[i%n].Name, firstNames[g.dice.IntN(len(firstNames))],
			lastNames[g.dice.IntN(len(lastNames))], address(g.dice), g.dice.Int64N(1e10))
	})
	// The first rides are still open, one for each vehicle that is in use: every third one.
	inUse := func(vehicle int) bool { return vehicle%3 == 2 && vehicle/3 < r.Rides }
	table("vehicles", "id, city, type, owner_id, creation_time, status, current_location, ext", r.Vehicles, func(i int) string {
		vehicles[i] = uuid(g.dice)
		status := "available"
		if inUse(i) {
			status = "in_use"
		}
		return fmt.Sprintf("('%s', '%s', '%s', '%s', '%s', '%s', '%s', '{\"color\": \"%s\", \"gears\": %d}')", vehicles[i], Cities[i%n].Name,
			kinds[g.dice.IntN(len(kinds))], pick(users, i%n), g.stamp(700*day), status, address(g.dice), colors[g.dice.IntN(len(colors))], 1+g.dice.IntN(21))
	})
	cityOf := make([]int, r.Rides)
	table("rides", "id, city, vehicle_city, rider_id, vehicle_id, start_address, end_address, start_time, end_time, revenue", r.Rides, func(i int) string {
		rides[i] = uuid(g.dice)
		if v := 3*i + 2; v < r.Vehicles {
			cityOf[i] = v % n
			c := Cities[cityOf[i]].Name
			return fmt.Sprintf("('%s', '%s', '%s', '%s', '%s', '%s', NULL, '%s', NULL, NULL)", rides[i], c, c, pick(users, cityOf[i]), vehicles[v],
				address(g.dice), g.stamp(2*time.Hour))
		}
		cityOf[i] = i % n
		c, began := Cities[i%n].Name, g.now.Add(-3*time.Hour-span(g.dice, 90*day)).Truncate(time.Second)
		minutes := 2 + g.dice.IntN(58)
		return fmt.Sprintf("('%s', '%s', '%s', '%s', '%s', '%s', '%s', '%s', '%s', %d.%02d)", rides[i], c, c, pick(users, i%n), pick(vehicles, i%n),
			address(g.dice), address(g.dice), began.Format("2006-01-02 15:04:05"), began.Add(time.Duration(minutes)*time.Minute).Format("2006-01-02 15:04:05"),
			1+minutes/4, g.dice.IntN(100))
	})
	if r.Rides > 0 {
		table("vehicle_location_histories", `city, ride_id, "timestamp", lat, long`, r.Locations, func(i int) string {
			ride := i % r.Rides
			return fmt.Sprintf("('%s', '%s', '%s', %.4f, %.4f)", Cities[cityOf[ride]].Name, rides[ride],
				g.now.Add(time.Duration(i)*time.Second).Format("2006-01-02 15:04:05"), g.dice.Float64()*180-90, g.dice.Float64()*360-180)
		})
	}
	table("promo_codes", "code, description, creation_time, expiration_time, rules", r.PromoCodes, func(i int) string {
		percent := 5 * (1 + g.dice.IntN(10))
		return fmt.Sprintf("('%s', '%d%% off the next ride', '%s', '%s', '{\"type\": \"percent_discount\", \"value\": \"%d%%\"}')", promoCode(i), percent,
			g.stamp(60*day), g.now.Add(span(g.dice, 60*day)).Format("2006-01-02 15:04:05"), percent)
	})
	if r.PromoCodes > 0 {
		// Dealt so that no user has a code twice.
		table("user_promo_codes", `city, user_id, code, "timestamp", usage_count`, min(r.UserPromoCodes, r.Users*r.PromoCodes), func(i int) string {
			u := i % r.Users
			return fmt.Sprintf("('%s', '%s', '%s', '%s', %d)", Cities[u%n].Name, users[u], promoCode((u+i/r.Users)%r.PromoCodes), g.stamp(30*day), g.dice.IntN(5))
		})
	}
	return out
}

func promoCode(i int) string {
	return fmt.Sprintf("%s_%s_%d", strings.ToUpper(colors[i%len(colors)]), strings.ToUpper(kinds[i%len(kinds)]), i+1)
}

// span draws a duration below a bound.
func span(dice *rand.Rand, below time.Duration) time.Duration {
	return time.Duration(dice.Int64N(int64(below)))
}
