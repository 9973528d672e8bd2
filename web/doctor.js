import './base.css'; import './doctor.css'; console.log('doctor');
