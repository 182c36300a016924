package types

// zoneAbbreviation is an abbreviation of time zones, in small letters, in PostgreSQL's set Default: its seconds east of UTC, and
// whether it is one of summer time; or the name of the zone that it stands for, whose history tells its offset at a time.
func zoneAbbreviation(w string) (offset int, summer bool, of string, ok bool) {
	switch w {
	case "hst", "taht":
		return -36000, false, "", true
	case "mart":
		return -34200, false, "", true
	case "akst", "gamt":
		return -32400, false, "", true
	case "pst":
		return -28800, false, "", true
	case "akdt":
		return -28800, true, "", true
	case "mst":
		return -25200, false, "", true
	case "pdt":
		return -25200, true, "", true
	case "cst", "galt":
		return -21600, false, "", true
	case "mdt":
		return -21600, true, "", true
	case "act", "cot", "est", "pet":
		return -18000, false, "", true
	case "cdt":
		return -18000, true, "", true
	case "bot", "amt", "ast":
		return -14400, false, "", true
	case "edt":
		return -14400, true, "", true
	case "nft", "nst":
		return -12600, false, "", true
	case "bra", "brt", "gft", "pmst", "uyt", "wgt":
		return -10800, false, "", true
	case "clst", "pyst", "adt":
		return -10800, true, "", true
	case "ndt":
		return -9000, true, "", true
	case "fnt":
		return -7200, false, "", true
	case "brst", "pmdt", "uyst", "wgst":
		return -7200, true, "", true
	case "egt", "azot":
		return -3600, false, "", true
	case "fnst":
		return -3600, true, "", true
	case "gmt", "uct", "ut", "utc", "z", "zulu", "wet":
		return 0, false, "", true
	case "egst", "azost":
		return 0, true, "", true
	case "wat", "cet", "met", "mez":
		return 3600, false, "", true
	case "bst", "wetdst":
		return 3600, true, "", true
	case "sast", "ist", "eet":
		return 7200, false, "", true
	case "bdst", "cest", "cetdst", "mest", "mesz", "metdst":
		return 7200, true, "", true
	case "eat", "fet":
		return 10800, false, "", true
	case "idt", "eest", "eetdst":
		return 10800, true, "", true
	case "irt":
		return 12600, false, "", true
	case "mut", "ret", "sct":
		return 14400, false, "", true
	case "msd":
		return 14400, true, "", true
	case "aft":
		return 16200, false, "", true
	case "pkt", "tjt", "uzt", "mvt", "tft":
		return 18000, false, "", true
	case "must":
		return 18000, true, "", true
	case "npt":
		return 20700, false, "", true
	case "almt", "bdt", "btt", "xjt":
		return 21600, false, "", true
	case "kgst", "pkst", "uzst", "yekst":
		return 21600, true, "", true
	case "mmt":
		return 23400, false, "", true
	case "ict", "wast", "cxt":
		return 25200, false, "", true
	case "almst":
		return 25200, true, "", true
	case "bnt", "bort", "cct", "hkt", "myt", "pht", "awst":
		return 28800, false, "", true
	case "wadt":
		return 28800, true, "", true
	case "acwst":
		return 31500, false, "", true
	case "jayt", "jst", "kst", "pwt":
		return 32400, false, "", true
	case "ulast", "awsst", "wdt":
		return 32400, true, "", true
	case "acst", "cast":
		return 34200, false, "", true
	case "ddut", "aest", "ligt", "chut", "mpt", "pgt", "trut", "yapt":
		return 36000, false, "", true
	case "kdt":
		return 36000, true, "", true
	case "lhst":
		return 37800, false, "", true
	case "acsst", "acdt", "cadt", "sadt":
		return 37800, true, "", true
	case "pont", "vut":
		return 39600, false, "", true
	case "aesst", "aedt":
		return 39600, true, "", true
	case "nzt", "fjt", "gilt", "mht", "nzst", "tvt", "wakt", "wft":
		return 43200, false, "", true
	case "chast":
		return 45900, false, "", true
	case "tot":
		return 46800, false, "", true
	case "fjst", "nzdt":
		return 46800, true, "", true
	case "chadt":
		return 49500, true, "", true
	case "art", "arst":
		return 0, false, "America/Argentina/Buenos_Aires", true
	case "pyt":
		return 0, false, "America/Asuncion", true
	case "vet":
		return 0, false, "America/Caracas", true
	case "gyt":
		return 0, false, "America/Guyana", true
	case "clt":
		return 0, false, "America/Santiago", true
	case "davt":
		return 0, false, "Antarctica/Davis", true
	case "mawt":
		return 0, false, "Antarctica/Mawson", true
	case "anast", "anat":
		return 0, false, "Asia/Anadyr", true
	case "tmt":
		return 0, false, "Asia/Ashgabat", true
	case "azst", "azt":
		return 0, false, "Asia/Baku", true
	case "kgt":
		return 0, false, "Asia/Bishkek", true
	case "lkt":
		return 0, false, "Asia/Colombo", true
	case "irkst", "irkt":
		return 0, false, "Asia/Irkutsk", true
	case "petst", "pett":
		return 0, false, "Asia/Kamchatka", true
	case "krast", "krat":
		return 0, false, "Asia/Krasnoyarsk", true
	case "magst", "magt":
		return 0, false, "Asia/Magadan", true
	case "novst", "novt":
		return 0, false, "Asia/Novosibirsk", true
	case "omsst", "omst":
		return 0, false, "Asia/Omsk", true
	case "sgt":
		return 0, false, "Asia/Singapore", true
	case "gest", "get":
		return 0, false, "Asia/Tbilisi", true
	case "ulat":
		return 0, false, "Asia/Ulaanbaatar", true
	case "vlast", "vlat":
		return 0, false, "Asia/Vladivostok", true
	case "yakst", "yakt":
		return 0, false, "Asia/Yakutsk", true
	case "yekt":
		return 0, false, "Asia/Yekaterinburg", true
	case "amst":
		return 0, false, "Asia/Yerevan", true
	case "fkst", "fkt":
		return 0, false, "Atlantic/Stanley", true
	case "lhdt":
		return 0, false, "Australia/Lord_Howe", true
	case "msk":
		return 0, false, "Europe/Moscow", true
	case "volt":
		return 0, false, "Europe/Volgograd", true
	case "iot":
		return 0, false, "Indian/Chagos", true
	case "easst", "east":
		return 0, false, "Pacific/Easter", true
	case "tkt":
		return 0, false, "Pacific/Fakaofo", true
	case "lint":
		return 0, false, "Pacific/Kiritimati", true
	case "kost":
		return 0, false, "Pacific/Kosrae", true
	case "nut":
		return 0, false, "Pacific/Niue", true
	case "ckt":
		return 0, false, "Pacific/Rarotonga", true
	}
	return 0, false, "", false
}
