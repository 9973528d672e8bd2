import './base.css'; import './flame.css'; console.log('flame');
