module donmaz/peers/go

go 1.22
